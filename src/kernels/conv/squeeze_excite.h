// Squeeze-and-excitation of channels-last images in one launch:
//   y = x * second(W2 * first(W1 * means + b1) + b2),
// where the means are those of each channel over an image's pixels.
//
// The blocks of a cluster share an image: each sums its part of the pixels, makes its part of both layers' outputs and
// scales its part of the pixels; what they make they read in each other's shared memory. So an image is read twice, the
// second time mostly from a cache, and what lies between is never written. Sums are fp32, added in one order: results
// never differ from run to run. Rounded once.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/epilogue.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr int64_t kMostExcited = 4096;  // channels, and squeezed ones: they are in shared memory

struct SqueezeExcite {
  DataType type = DataType::kFloat16;  // float16 or bfloat16
  int64_t batch = 0, pixels = 0;
  int32_t channels = 0, squeezed = 0;  // at most kMostExcited
  Activation first = Activation::kNone, second = Activation::kNone;
  ActivationParameters first_parameters = {}, second_parameters = {};
};

struct SqueezeExcitePointers {
  const void* x = nullptr;   // [batch, pixels, channels]
  const void* w1 = nullptr;  // [squeezed, channels]
  const void* b1 = nullptr;  // [squeezed], or null
  const void* w2 = nullptr;  // [channels, squeezed]
  const void* b2 = nullptr;  // [channels], or null
  void* y = nullptr;         // as x, which it may be
};

// Whether blocks of the device share an image, as a fast one needs of a small batch.
bool SharesImages(const device::DeviceInfo& device);
// Blocks of an image: 1, 2, 4 or 8.
int SqueezeExciteBlocks(const SqueezeExcite& problem, const device::DeviceInfo& device);

// Tensors of any alignment; those aligned to 16 bytes, of whole packs of 8 channels, take a fraction of the time.
Status LaunchSqueezeExcite(const SqueezeExcite& problem, int blocks, const SqueezeExcitePointers& at,
                           device::Stream stream);

}  // namespace cudaep::kernels
