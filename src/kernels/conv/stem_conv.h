// A network's first convolution on tensor cores: an image of few channels, channels first, gives one of many, channels
// last; where the network pools that next, the pool's result right away.
//
// The inner dimension of the product is (row of the window, channel, column filled up to kStemColumns). With a stride
// of two along the columns what a lane multiplies then is one word of an image's row in shared memory, where it lies:
// nothing is gathered, and lanes that need the same word share one load. A warp has some columns and goes down the
// rows. The weights of its 32 output channels lie in its registers; on devices of 9.0 a warpgroup has 64, whose weights
// lie in shared memory. A pool's maxima never leave registers.
//
// An image of codes of int8 is multiplied as the whole numbers that it and the weights stand for, of which 16-bit
// floats have each and sums of fp32 all: the result is that of QuantizedConv (kernels/conv/quantized_conv.h).
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/epilogue.h"
#include "core/status.h"
#include "device/device.h"
#include "device/device_info.h"
#include "kernels/conv/coding.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kStemTypes{DataType::kFloat16, DataType::kBFloat16};
inline constexpr int kStemStride = 2;         // along the columns
inline constexpr int kStemColumns = 8;        // of a window, a first one without weights before an odd padding included
inline constexpr int kMostStemChannels = 4;   // of the image
inline constexpr int kMostStemRows = 22;      // of a window, each channel's counted
inline constexpr int kMostStemRowStride = 8;  // so that a block's rows have room
inline constexpr int kStemPack = 8;           // the output channels are whole packs
inline constexpr int kStemPool = 3;

// None, or a bound on either side.
constexpr bool IsClip(Activation activation) {
  return activation == Activation::kNone || activation == Activation::kRelu || activation == Activation::kClip;
}

// All sizes are positive but those of paddings.
struct StemConv {
  DataType type = DataType::kFloat16;
  int64_t batch = 0;
  int32_t channels = 0, in_h = 0, in_w = 0;
  int32_t out_channels = 0, out_h = 0, out_w = 0;  // of the convolution
  int32_t kernel_h = 0, kernel_w = 0, stride_h = 1, pad_top = 0, pad_left = 0;
  Activation activation = Activation::kNone;
  ActivationParameters parameters = {};

  bool by_warpgroup = false;  // by products of warpgroups (TakesStemWarpgroup), for which weights are packed otherwise

  // x and y are codes, the weights float16.
  bool of_codes = false;
  int32_t x_zero = 0;
  Coding y;
  Bounds bounds;  // instead of an activation

  // A MaxPool of windows of kStemPool x kStemPool, two apart, of that; only where IsClip(activation).
  bool pools = false;
  int32_t pool_top = 0, pool_left = 0, pooled_h = 0, pooled_w = 0;

  int32_t y_h() const { return pools ? pooled_h : out_h; }
  int32_t y_w() const { return pools ? pooled_w : out_w; }
  constexpr int window_rows() const { return kernel_h * channels; }
  constexpr int first_column() const { return pad_left % 2; }  // with weights
};

// Whether products of warpgroups take the convolution: those have whole 64 channels.
bool TakesStemWarpgroup(const StemConv& conv, const device::DeviceInfo& device);

// Bytes of the weights in the order that the kernel wants, which by_warpgroup decides, and that order of `w`
// [out_channels, channels, kernel_h, kernel_w]. Sizes of images have no part in it.
size_t PackedStemBytes(const StemConv& conv);
Status LaunchPackStem(const StemConv& conv, const void* w, void* packed, device::Stream stream);

// Rows of the result that a block computes, on a device of so many multiprocessors.
int StemRowsOfBlock(const StemConv& conv, int multiprocessors);

struct StemPointers {
  const void* x = nullptr;       // [batch, channels, in_h, in_w]
  const void* packed = nullptr;  // aligned to 16 bytes
  const void* bias = nullptr;    // [out_channels], or null; of codes float
  const float* scale = nullptr;  // [out_channels], of codes: what a sum is multiplied by
  void* y = nullptr;             // [batch, y_h, y_w, out_channels]
};
// y = activation(x * w + bias), rounded once, or of codes what QuantizedConv makes of them, or its maxima: NaN is the
// largest, and a window beside the image gives minus infinity, or the lowest code, as in kernels/pool/pool_last.h.
// `constant_weights`: the kernel may read them before earlier work of the stream is done.
Status LaunchStemConv(const StemConv& conv, int rows_of_block, bool constant_weights, const StemPointers& at,
                      device::Stream stream);

}  // namespace cudaep::kernels
