// Batch normalisation for inference: y = (x - mean) / sqrt(variance + epsilon) * scale + bias, one value a channel.
//
// One launch, memory bound. The channel of element i is (i / inner) % channels, so that `inner` is the spatial size
// for channels first and 1 for channels last. fp32 arithmetic (fp64 for double). `y` may be `x`.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kBatchNormTypes = kFloatTypes;

struct BatchNormArgs {
  DataType type = DataType::kUndefined;             // of x and y
  DataType scale_type = DataType::kUndefined;       // of scale and bias, any of kBatchNormTypes
  DataType statistics_type = DataType::kUndefined;  // of mean and variance, any of kBatchNormTypes
  const void* x = nullptr;
  const void* scale = nullptr;
  const void* bias = nullptr;
  const void* mean = nullptr;
  const void* variance = nullptr;
  void* y = nullptr;
  int64_t elems = 0, inner = 1, channels = 1;
  double epsilon = 0;
};

Status LaunchBatchNorm(const BatchNormArgs& args, device::Stream stream);

}  // namespace cudaep::kernels
