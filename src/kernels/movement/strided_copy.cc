#include "kernels/movement/strided_copy.h"

#include "kernels/common/units.h"

namespace cudaep::kernels {
namespace {

// Appends a dimension outside of those there are; false when there is no room.
bool AddDimension(StridedCopy& copy, int64_t size, int64_t stride) {
  if (size == 1) return true;
  const int last = copy.rank - 1;
  if (last >= 0 && stride == copy.stride[last] * copy.size[last]) {
    copy.size[last] *= size;
    return true;
  }
  if (copy.rank == kMaxStridedRank) return false;
  copy.size[copy.rank] = size;
  copy.stride[copy.rank] = stride;
  ++copy.rank;
  return true;
}

int WidestUnitOf(const StridedCopy& copy) {
  if (copy.stride[0] != 1) return copy.unit_bytes;
  int widest = std::min(WidestUnit(copy.size[0] * copy.unit_bytes), WidestUnit(copy.offset * copy.unit_bytes));
  for (int d = 1; d < copy.rank; ++d) widest = std::min(widest, WidestUnit(copy.stride[d] * copy.unit_bytes));
  return widest;
}

}  // namespace

Result<StridedCopy> MakeStridedCopy(Dims sizes, Dims strides, int64_t offset, size_t elem_bytes) {
  StridedCopy copy;
  const int64_t units_per_elem = elem_bytes == 16 ? 2 : 1;
  copy.unit_bytes = static_cast<int>(elem_bytes) / static_cast<int>(units_per_elem);
  copy.units = ElementCount(sizes) * units_per_elem;
  copy.offset = offset * units_per_elem;
  if (copy.units == 0) return copy;
  bool fits = AddDimension(copy, units_per_elem, 1);
  for (size_t d = sizes.size(); d-- > 0;) fits = fits && AddDimension(copy, sizes[d], strides[d] * units_per_elem);
  if (!fits)
    return NotSupported("a strided copy of shape ", sizes, " needs more than ", kMaxStridedRank, " dimensions");
  if (copy.rank == 0) {  // one unit
    copy.rank = 1;
    copy.size[0] = copy.stride[0] = 1;
  }
  copy.widest_bytes = WidestUnitOf(copy);
  return copy;
}

}  // namespace cudaep::kernels
