// A convolution of 8-bit codes with their channels last, on tensor cores with exact sums of 32 bits, and what follows
// it up to the next codes.
//
//   sum    = sum over window and channels of (x - x_zero) * w, where pixels beside the image are x_zero
//   number = sum * scale[channel] + bias[channel], bound
//   y      = the number, or its code; of codes also that of (their number + the residual's), bound
//
// A code stands for (code - zero) * scale; numbers are divided by the scale, rounded to even and saturated. What scales
// a number between two roundings to codes is one factor, so that a number next to a tie may get the code beside it, as
// quant/whole_range.cuh says.
#pragma once

#include <cstdint>
#include <optional>

#include "core/status.h"
#include "device/device.h"
#include "kernels/conv/coding.h"
#include "kernels/gemm/warpgroup_tiles.h"

namespace cudaep::kernels {

inline constexpr int kQuantizedConvPack = 16;  // the input channels are whole packs

struct QuantizedConv {
  int64_t batch = 0;
  int32_t channels = 0, in_h = 0, in_w = 0;  // an image has less than 2^31 elements
  int32_t out_channels = 0, out_h = 0, out_w = 0;
  int32_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_top = 0, pad_left = 0;
  int32_t dilation_h = 1, dilation_w = 1;
  int32_t x_zero = 0;
  bool to_codes = true;  // otherwise y is of float
  Bounds bounds;
  Coding y;  // before a residual is added, if there is one
  bool has_residual = false;
  Coding residual, sum;
  Bounds sum_bounds;

  int64_t pixels() const { return batch * out_h * out_w; }
};

// How the result is computed: by the tensor cores of warps or of warpgroups (Groups), a part of so many pixels and
// channels for each block, or as a product (Points) whose blocks go round parts of 128 pixels or 256. Products store
// packs: without them their tiles become others.
enum class QuantizedConvTile : uint8_t {
  k32x32,
  k64x32,
  k64x64,
  k128x64,
  k128x128,
  k128x64Groups,
  k128x128Groups,
  kFinePoints,   // of 64 channels, two blocks together
  kSmallPoints,  // of 128
  kTallPoints,   // of 128, for 256 pixels
};
inline constexpr int kQuantizedConvTiles = 10;

struct QuantizedConvChoice {
  QuantizedConvTile tile = QuantizedConvTile::k64x64;
  WarpgroupPlan points;  // of those tiles
};
// Of what is expected to take the least time, or of a tile that is forced: kNotSupported where it does not do.
Result<QuantizedConvChoice> ChooseQuantizedConv(const QuantizedConv& conv, const device::DeviceInfo& device,
                                                std::optional<QuantizedConvTile> forced);

struct QuantizedConvPointers {
  const void* x = nullptr;  // int8 [batch, in_h, in_w, channels], aligned to 16 bytes
  const void* w = nullptr;  // int8 [out_channels, kernel_h, kernel_w, channels], aligned to 16 bytes
  const float* scale = nullptr;
  const float* bias = nullptr;     // null: none
  const int32_t* shift = nullptr;  // -x_zero * (sum of a channel's weights); null: x_zero is 0
  const void* residual = nullptr;  // as y
  void* y = nullptr;               // [batch, out_h, out_w, out_channels]
};
// `constant_weights`: the kernel may read them before earlier work of the stream is done.
Status LaunchQuantizedConv(const QuantizedConv& conv, const QuantizedConvChoice& choice, bool constant_weights,
                           const QuantizedConvPointers& at, device::Stream stream);

}  // namespace cudaep::kernels
