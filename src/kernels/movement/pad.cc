#include "kernels/movement/pad.h"

#include "core/shape.h"
#include "kernels/common/units.h"
#include "kernels/movement/strided_copy.h"

namespace cudaep::kernels {
namespace {

// Appends a dimension outside of those there are; false when there is no room. `whole`: all of the input's is used. The
// innermost one, with a stride of 1, is left out only so.
bool AddDimension(PadCopy& pad, int64_t out, int64_t in, int64_t begin, int64_t stride, bool whole) {
  const int last = pad.rank - 1;
  if (out == 1 && in == 1 && (last >= 0 || whole)) return true;
  // Rows that are taken whole are elements of the dimension around them; a mode that looks at coordinates cannot see
  // them so where that dimension is padded.
  const bool last_whole = last >= 0 && pad.out[last] == pad.in[last] && stride == pad.in[last] * pad.stride[last];
  if (last_whole && (pad.mode == PadMode::kConstant || out == in)) {
    pad.begin[last] = begin * pad.out[last];
    pad.in[last] *= in;
    pad.out[last] *= out;
    return true;
  }
  if (pad.rank == kMaxPadRank) return false;
  pad.out[pad.rank] = out;
  pad.in[pad.rank] = in;
  pad.begin[pad.rank] = begin;
  pad.stride[pad.rank] = stride;
  ++pad.rank;
  return true;
}

int WidestUnitOf(const PadCopy& pad) {
  if (pad.mode != PadMode::kConstant && pad.out[0] != pad.in[0]) return pad.elem_bytes;
  int widest = std::min({WidestUnit(pad.out[0] * pad.elem_bytes), WidestUnit(pad.in[0] * pad.elem_bytes),
                         WidestUnit(pad.begin[0] * pad.elem_bytes), WidestUnit(pad.offset * pad.elem_bytes)});
  for (int d = 1; d < pad.rank; ++d) widest = std::min(widest, WidestUnit(pad.stride[d] * pad.elem_bytes));
  return widest;
}

}  // namespace

Result<PadCopy> MakePadCopy(Dims dims, Dims begins, Dims ends, PadMode mode, size_t elem_bytes) {
  PadCopy pad{.mode = mode, .elem_bytes = static_cast<int>(elem_bytes), .elems = 1};
  const Shape strides = ContiguousStrides(dims);
  bool fits = true;
  for (size_t d = dims.size(); d-- > 0;) {
    const int64_t cut = std::max<int64_t>(-begins[d], 0);
    const int64_t used = std::max<int64_t>(dims[d] - cut + std::min<int64_t>(ends[d], 0), 0);
    const int64_t out = dims[d] + begins[d] + ends[d];
    if (mode != PadMode::kConstant && used == 0 && out != 0) {
      return InvalidArgument("dimension ", d, " of ", dims, " has no element to pad with");
    }
    pad.elems *= out;
    pad.offset += used != 0 ? cut * strides[static_cast<int>(d)] : 0;
    fits = fits &&
           AddDimension(pad, out, used, std::max<int64_t>(begins[d], 0), strides[static_cast<int>(d)], used == dims[d]);
  }
  if (!fits) return NotSupported("padding ", dims, " takes more than ", kMaxPadRank, " dimensions");
  if (pad.rank == 0) {  // one element
    pad.rank = 1;
    pad.out[0] = pad.in[0] = pad.stride[0] = 1;
  }
  pad.widest_bytes = WidestUnitOf(pad);
  return pad;
}

}  // namespace cudaep::kernels
