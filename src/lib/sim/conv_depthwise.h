// Depthwise convolution (one input channel a group) by direct loops, for conv_host.cc.
//
// A matrix product would be one row high here: the direct loop reads each input once per tap and needs no columns.
#pragma once

#include <algorithm>

#include "core/float16.h"
#include "lib/sim/conv_geometry.h"

namespace cudaep::sim {

// Scratch in elements of the compute type: one output row (channels first), or the weights with channels innermost and
// one output pixel (channels last).
inline int64_t DepthwiseScratchElems(const dnn::ConvProblem& p, const Geometry& g) {
  return p.layout == dnn::Layout::kChannelsLast ? p.out_channels * (g.taps + 1) : g.axes[2].out;
}

namespace detail {

// Adds one tap's products of an input row to an output row.
template <class T, class C>
void AddRun(const Axis::Run& run, C weight, const T* in, C* out) {
  in += run.in_begin;
  out += run.out_begin;
  if (run.in_step == 1 && run.out_step == 1) {
    for (int64_t i = 0; i < run.count; ++i) out[i] += weight * Load(in[i]);
  } else if (run.out_step == 1) {
    for (int64_t i = 0; i < run.count; ++i) out[i] += weight * Load(in[i * run.in_step]);
  } else {
    for (int64_t i = 0; i < run.count; ++i) out[i * run.out_step] += weight * Load(in[i * run.in_step]);
  }
}

template <class T>
void DepthwisePlane(const Geometry& g, const T* x, const T* w, ComputeType<T> bias, ComputeType<T>* row, T* y) {
  const auto& [depth, height, width] = g.axes;
  for (int64_t od = 0; od < depth.out; ++od) {
    for (int64_t oh = 0; oh < height.out; ++oh, y += width.out) {
      std::fill_n(row, width.out, bias);
      for (int64_t r = 0; r < g.taps; ++r) {
        const int64_t h = height.InputOf(oh, r / width.kernel % height.kernel);
        const int64_t d = depth.InputOf(od, r / width.kernel / height.kernel);
        if (d < 0 || h < 0) continue;
        AddRun(width.RunOf(r % width.kernel, 0, width.out), Load(w[r]), x + (d * height.in + h) * width.in, row);
      }
      for (int64_t i = 0; i < width.out; ++i) y[i] = Store<T>(row[i]);
    }
  }
}

// One output pixel of all channels; `w` is [tap][out channel].
template <class T>
void DepthwisePixel(const dnn::ConvProblem& p, const Geometry& g, const T* image, const ComputeType<T>* w, int64_t od,
                    int64_t oh, int64_t ow, ComputeType<T>* sums) {
  const auto& [depth, height, width] = g.axes;
  for (int64_t r = 0; r < g.taps; ++r, w += p.out_channels) {
    const int64_t iw = width.InputOf(ow, r % width.kernel);
    const int64_t ih = height.InputOf(oh, r / width.kernel % height.kernel);
    const int64_t id = depth.InputOf(od, r / width.kernel / height.kernel);
    if (id < 0 || ih < 0 || iw < 0) continue;
    const T* x = image + ((id * height.in + ih) * width.in + iw) * p.in_channels;
    if (g.group_out == 1) {
      for (int64_t c = 0; c < p.in_channels; ++c) sums[c] += w[c] * Load(x[c]);
    } else {
      for (int64_t c = 0; c < p.in_channels; ++c) {
        for (int64_t k = c * g.group_out; k < (c + 1) * g.group_out; ++k) sums[k] += w[k] * Load(x[c]);
      }
    }
  }
}

template <class T>
void DepthwiseChannelsLast(const dnn::ConvProblem& p, const Geometry& g, const dnn::ConvPointers& at) {
  using C = ComputeType<T>;
  const T* weights = static_cast<const T*>(at.w);
  C* packed = static_cast<C*>(at.workspace);
  C* sums = packed + p.out_channels * g.taps;
  const bool forward = p.direction == dnn::Direction::kForward;
  for (int64_t k = 0; k < p.out_channels; ++k) {
    const int64_t c = k / g.group_out, j = k % g.group_out;
    for (int64_t r = 0; r < g.taps; ++r) {
      // Forward: [out][taps][1]. Transposed: [in][taps][out of the group].
      packed[r * p.out_channels + k] = Load(weights[forward ? k * g.taps + r : (c * g.taps + r) * g.group_out + j]);
    }
  }
  const T* bias = static_cast<const T*>(at.bias);
  T* y = static_cast<T*>(at.y);
  for (int64_t n = 0; n < p.batch; ++n) {
    const T* image = static_cast<const T*>(at.x) + n * p.in_channels * g.in_plane;
    for (int64_t pixel = 0; pixel < g.out_plane; ++pixel, y += p.out_channels) {
      const int64_t ow = pixel % g.axes[2].out, row = pixel / g.axes[2].out;
      for (int64_t k = 0; k < p.out_channels; ++k) sums[k] = p.epilogue.bias ? Load(bias[k]) : C{0};
      DepthwisePixel(p, g, image, packed, row / g.axes[1].out, row % g.axes[1].out, ow, sums);
      for (int64_t k = 0; k < p.out_channels; ++k) y[k] = Store<T>(sums[k]);
    }
  }
}

}  // namespace detail

template <class T>
void RunDepthwise(const dnn::ConvProblem& p, const dnn::ConvPointers& at) {
  const Geometry g(p);
  if (p.layout == dnn::Layout::kChannelsLast) return detail::DepthwiseChannelsLast<T>(p, g, at);
  const T* bias = static_cast<const T*>(at.bias);
  for (int64_t n = 0; n < p.batch; ++n) {
    for (int64_t k = 0; k < p.out_channels; ++k) {
      // With one input channel a group, [out][1][taps] and [in][out of the group][taps] are the same order.
      detail::DepthwisePlane(
          g, static_cast<const T*>(at.x) + (n * p.in_channels + k / g.group_out) * g.in_plane,
          static_cast<const T*>(at.w) + k * g.taps, p.epilogue.bias ? Load(bias[k]) : ComputeType<T>{0},
          static_cast<ComputeType<T>*>(at.workspace), static_cast<T*>(at.y) + (n * p.out_channels + k) * g.out_plane);
    }
  }
}

}  // namespace cudaep::sim
