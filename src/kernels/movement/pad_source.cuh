// What the sources of a padding copy have in common.
#pragma once

#include "kernels/movement/copy_kernel.cuh"
#include "kernels/movement/pad.h"

namespace cudaep::kernels {

// Sizes of a pad in units, innermost first.
template <class Index>
struct PadView {
  using Coordinate = std::make_signed_t<Index>;
  int rank = 1;
  IndexDivider<Index> out[kMaxPadRank];
  Coordinate in[kMaxPadRank] = {};  // no more than `out`, as `begin`
  Coordinate begin[kMaxPadRank] = {};
  int64_t stride[kMaxPadRank] = {};
};

// `factor`: elements in a unit.
template <class Index>
PadView<Index> MakePadView(const PadCopy& pad, int64_t factor) {
  PadView<Index> view;
  view.rank = pad.rank;
  for (int d = 0; d < pad.rank; ++d) {
    const int64_t inner = d == 0 ? factor : 1;
    view.out[d] = IndexDivider<Index>(pad.out[d] / inner);
    view.in[d] = static_cast<typename PadView<Index>::Coordinate>(pad.in[d] / inner);
    view.begin[d] = static_cast<typename PadView<Index>::Coordinate>(pad.begin[d] / inner);
    view.stride[d] = d == 0 ? 1 : pad.stride[d] / factor;
  }
  return view;
}

// From the first element of the input that is used to the last one.
inline Readable ReadablePad(const PadCopy& pad, const void* in) {
  int64_t last = 0;
  for (int d = 0; d < pad.rank; ++d) {
    if (pad.in[d] == 0) return {};
    last += (pad.in[d] - 1) * pad.stride[d];
  }
  const auto* const begin = static_cast<const std::byte*>(in) + pad.offset * pad.elem_bytes;
  return {begin, begin + (last + 1) * pad.elem_bytes};
}

struct PadUnit {
  int bytes;
  int alignment;  // of both buffers, at most 16
};

// For an output that is not empty.
Status LaunchPadConstant(const PadCopy& pad, PadUnit unit, const void* in, PadValue value, void* out,
                         device::Stream stream);
Status LaunchPadMapped(const PadCopy& pad, PadUnit unit, const void* in, void* out, device::Stream stream);

}  // namespace cudaep::kernels
