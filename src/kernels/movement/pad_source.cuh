// What the sources of a padding copy have in common.
#pragma once

#include "kernels/movement/copy_kernel.cuh"
#include "kernels/movement/pad.h"

namespace cudaep::kernels {

// Sizes of a pad in units, innermost first.
template <class Index>
struct PadView {
  int rank = 1;
  IndexDivider<Index> out[kMaxPadRank];
  int64_t in[kMaxPadRank] = {};
  int64_t begin[kMaxPadRank] = {};
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
    view.in[d] = pad.in[d] / inner;
    view.begin[d] = pad.begin[d] / inner;
    view.stride[d] = d == 0 ? 1 : pad.stride[d] / factor;
  }
  return view;
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
