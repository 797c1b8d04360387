// Depthwise 2-D convolution, channels first or last: every output channel sees one input channel.
//
// Memory bound: a thread computes several output rows, so that each input row is read once for all of them, and for the
// usual windows 16 bytes of outputs in each; the overlap with its neighbours is served by the first-level cache. With
// channels last: depthwise_tile.cuh.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/epilogue.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kDepthwiseTypes = kFloatTypesNoDouble;

// All sizes are positive; an image plane and the number of planes fit 31 bits.
struct DepthwiseConv {
  DataType type = DataType::kFloat;
  int64_t batch = 0;
  int32_t in_channels = 0;
  int32_t multiplier = 1;  // output channels an input channel
  int32_t in_h = 0, in_w = 0, out_h = 0, out_w = 0;
  int32_t kernel_h = 0, kernel_w = 0;
  int32_t stride_h = 1, stride_w = 1;
  int32_t dilation_h = 1, dilation_w = 1;
  int32_t pad_top = 0, pad_left = 0;
  bool constant_weights = false;              // they may be read before earlier work of the stream is done
  Activation activation = Activation::kNone;  // of the sum and the bias, before it is rounded
  ActivationParameters parameters = {};
};

// w is [in_channels * multiplier, 1, kernel_h, kernel_w]; `bias` may be null.
Status LaunchDepthwiseConv(const DepthwiseConv& conv, const void* x, const void* w, const void* bias, void* y,
                           device::Stream stream);

// The same with channels last, x [batch, in..., in_channels]; w as above. multiplier 1, at most kMostDepthwiseLastTaps.
inline constexpr int kMostDepthwiseLastTaps = 64;
Status LaunchDepthwiseConvLast(const DepthwiseConv& conv, const void* x, const void* w, const void* bias, void* y,
                               device::Stream stream);

}  // namespace cudaep::kernels
