// The second half of a normalisation whose statistics are there: y = (x - shift) * factor * scale + bias.
//
// One launch, memory bound; x is contiguous, and the others broadcast to it. fp32 arithmetic (fp64 for double). `y` may
// be `x`.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "device/device.h"
#include "kernels/elementwise/broadcast.h"

namespace cudaep::kernels {

struct NormalizeArgs {
  DataType type = DataType::kUndefined;         // of x and y, any of kFloatTypes
  DataType affine_type = DataType::kUndefined;  // of scale and bias, any of kFloatTypes
  const void* x = nullptr;
  const void* statistics = nullptr;  // NormScale (kernels/reduce/reduce.h)
  const void* scale = nullptr;       // or null: 1
  const void* bias = nullptr;        // or null: 0
  void* y = nullptr;
  bool swish = false;                       // y * sigmoid(y) in the end
  const Broadcast<2>* broadcast = nullptr;  // of the statistics, and of scale and bias
};

Status LaunchNormalize(const NormalizeArgs& args, device::Stream stream);

}  // namespace cudaep::kernels
