#include "kernels/movement/rolled_copy.h"

#include <array>
#include <numeric>

#include "core/shape.h"
#include "kernels/common/units.h"
#include "kernels/movement/strided_copy.h"

namespace cudaep::kernels {
namespace {

bool IsOrder(Dims perm) {
  std::array<bool, kMostRolledAtoms> seen{};
  for (const int64_t at : perm) {
    if (at < 0 || at >= static_cast<int64_t>(perm.size()) || seen[static_cast<size_t>(at)]) return false;
    seen[static_cast<size_t>(at)] = true;
  }
  return true;
}

// How many atoms from `at` on are an axis of `size` elements; those of one element are left out before. -1: none are.
int AtomsOf(const RolledAtom* atoms, int at, int end, int64_t size) {
  int count = 0;
  for (int64_t product = 1; product != size; ++count) {
    if (at + count == end || size % (product *= atoms[at + count].size) != 0) return -1;
  }
  return count;
}

}  // namespace

Result<RolledCopy> MakeRolledCopy(const RolledDims& dims, size_t elem_bytes) {
  RolledCopy copy;
  copy.elem_bytes = static_cast<int>(elem_bytes);
  copy.elems = ElementCount(dims.dims);
  if (dims.source_dims.size() > kMostRolledAtoms || dims.target_dims.size() > kMostRolledAtoms ||
      dims.dims.size() > kMostRolledAxes) {
    return NotSupported("rolling ", dims.dims, " as ", dims.source_dims, " and ", dims.target_dims, " dimensions");
  }
  const auto refuse = [&] {
    return InvalidArgument("dimensions ", dims.source_dims, " in order ", dims.source_perm, ", ", dims.target_dims,
                           " in order ", dims.target_perm, " and shifts ", dims.shifts, " do not fit ", dims.dims);
  };
  const bool fits = dims.source_perm.size() == dims.source_dims.size() &&
                    dims.target_perm.size() == dims.target_dims.size() && dims.shifts.size() == dims.dims.size() &&
                    IsOrder(dims.source_perm) && IsOrder(dims.target_perm) &&
                    ElementCount(dims.source_dims) == copy.elems && ElementCount(dims.target_dims) == copy.elems;
  if (!fits) return refuse();
  if (copy.elems == 0) return copy;

  // Atoms of more than one element, in the order of the axes.
  int sources = 0, targets = 0;
  const Shape strides = ContiguousStrides(dims.source_dims);
  for (const int64_t at : dims.source_perm) {
    const int64_t size = dims.source_dims[static_cast<size_t>(at)];
    if (size != 1) copy.source[sources++] = {.size = size, .stride = strides[static_cast<int>(at)]};
  }
  std::array<int64_t, kMostRolledAtoms> behind{};  // by target atom
  int64_t inside = 1;
  for (size_t i = dims.target_perm.size(); i-- > 0;) {
    behind[static_cast<size_t>(dims.target_perm[i])] = inside;
    inside *= dims.target_dims[static_cast<size_t>(dims.target_perm[i])];
  }
  for (size_t i = 0; i < dims.target_dims.size(); ++i) {
    if (dims.target_dims[i] != 1) copy.target[targets++] = {.size = dims.target_dims[i], .behind = behind[i]};
  }

  int source = 0, target = 0;
  for (size_t d = 0; d < dims.dims.size(); ++d) {
    if (dims.dims[d] == 1) continue;
    RolledAxis axis{.size = dims.dims[d], .shift = dims.shifts[d], .first_target = target, .first_source = source};
    axis.sources = AtomsOf(copy.source, source, sources, axis.size);
    axis.targets = AtomsOf(copy.target, target, targets, axis.size);
    if (axis.sources < 0 || axis.targets < 0 || axis.shift < 0 || axis.shift >= axis.size) return refuse();
    source += axis.sources, target += axis.targets;
    int64_t inner = 1;
    for (int i = source; i-- > axis.first_source; inner *= copy.source[i].size) copy.source[i].inner = inner;
    inner = 1;
    for (int i = target; i-- > axis.first_target; inner *= copy.target[i].size) copy.target[i].inner = inner;
    copy.axis[copy.axes++] = axis;
  }
  if (copy.axes == 0) {  // one element
    copy.axes = 1;
    copy.axis[0] = {.targets = 1, .sources = 1};
  }
  // What the last axis ends with, where both sides end with it too.
  const RolledAxis& last = copy.axis[copy.axes - 1];
  const RolledAtom &from = copy.source[last.first_source + last.sources - 1],
                   &to = copy.target[last.first_target + last.targets - 1];
  if (from.stride == 1 && to.behind == 1) copy.run = std::gcd(std::gcd(from.size, to.size), last.shift);
  copy.widest_bytes = WidestUnit(copy.run * copy.elem_bytes);
  return copy;
}

}  // namespace cudaep::kernels
