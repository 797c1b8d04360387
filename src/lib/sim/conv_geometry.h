// Index arithmetic of convolutions, the same for both directions: which input element an output element and a kernel
// tap meet, along one dimension.
//
// Forward: in = out * stride - pad + tap * dilation. Transposed: in = (out + pad - tap * dilation) / stride where that
// division is exact. So a transposed convolution is a gather too, with holes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "lib/dnn.h"

namespace cudaep::sim {

struct Axis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
  bool transposed = false;

  // The input index, or -1 outside of the data.
  int64_t InputOf(int64_t output, int64_t tap) const {
    int64_t index = 0;
    if (transposed) {
      index = output + pad - tap * dilation;
      if (index < 0 || index % stride != 0) return -1;
      index /= stride;
    } else {
      index = output * stride - pad + tap * dilation;
    }
    return index >= 0 && index < in ? index : -1;
  }

  // All pairs of one tap with outputs in [low, high): output = out_begin + i * out_step, input likewise, i < count.
  struct Run {
    int64_t count = 0, out_begin = 0, out_step = 1, in_begin = 0, in_step = 1;
  };
  Run RunOf(int64_t tap, int64_t low, int64_t high) const {
    const int64_t shift = tap * dilation - pad;
    Run run;
    int64_t first = 0, last = 0;
    if (transposed) {  // counts inputs: output = input * stride + shift
      first = std::max<int64_t>(0, CeilDivide(low - shift, stride));
      last = std::min(in - 1, FloorDivide(high - 1 - shift, stride));
      run.in_begin = first;
      run.out_begin = first * stride + shift;
      run.out_step = stride;
    } else {  // counts outputs: input = output * stride + shift
      first = std::max(low, CeilDivide(-shift, stride));
      last = std::min(high - 1, FloorDivide(in - 1 - shift, stride));
      run.out_begin = first;
      run.in_begin = first * stride + shift;
      run.in_step = stride;
    }
    run.count = std::max<int64_t>(0, last - first + 1);
    return run;
  }

 private:
  static int64_t FloorDivide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
  static int64_t CeilDivide(int64_t a, int64_t b) { return -FloorDivide(-a, b); }
};

// A problem in three spatial dimensions (missing outer ones are 1) and per-group sizes.
struct Geometry {
  std::array<Axis, 3> axes;
  int64_t in_plane = 1, out_plane = 1, taps = 1;     // elements of one channel
  int64_t group_in = 1, group_out = 1;               // channels of one group
  int64_t depth() const { return group_in * taps; }  // inner size of the matrix product
  bool pointwise = true;                             // 1x1, unit stride, no padding: input is the column matrix

  explicit Geometry(const dnn::ConvProblem& p)
      : group_in(p.in_channels / p.groups), group_out(p.out_channels / p.groups) {
    for (int d = 0; d < p.spatial_rank; ++d) {
      axes[3 - p.spatial_rank + d] = {p.in[d],
                                      p.out[d],
                                      p.kernel[d],
                                      p.stride[d],
                                      p.dilation[d],
                                      p.pad_begin[d],
                                      p.direction == dnn::Direction::kBackward};
      in_plane *= p.in[d];
      out_plane *= p.out[d];
      taps *= p.kernel[d];
      pointwise = pointwise && p.kernel[d] == 1 && p.stride[d] == 1 && p.pad_begin[d] == 0 && p.in[d] == p.out[d];
    }
  }
};

}  // namespace cudaep::sim
