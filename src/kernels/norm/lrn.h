// Local response normalisation: y = x / (bias + alpha / size * (sum of the squares of `size` channels around))^beta.
//
// One launch. A thread has some channels of a position, so that an element is read for several of them at once. fp32
// arithmetic (fp64 for double).
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "device/device.h"

namespace cudaep::kernels {

struct LrnArgs {
  DataType type = DataType::kUndefined;  // any of kFloatTypes
  const void* x = nullptr;
  void* y = nullptr;
  int64_t batch = 0, channels = 0, inner = 0;
  int64_t size = 1;
  double alpha = 0, beta = 0, bias = 0;
};

Status LaunchLrn(const LrnArgs& args, device::Stream stream);

}  // namespace cudaep::kernels
