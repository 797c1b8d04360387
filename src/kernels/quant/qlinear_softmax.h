// Softmax of 8-bit integers that stand for reals.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

// Over the middle one of [outer, axis, inner]. power[d] is what a code that lies d below its row's largest adds to the
// sum: exp(-d * scale). y = saturate(round(share / y_scale) + y_zero), ties to even.
struct QLinearSoftmax {
  DataType type = DataType::kUint8;  // or int8
  int64_t outer = 0, axis = 0, inner = 0;
  float y_scale = 1;
  int32_t y_zero = 0;
  float power[256] = {};
};

Status LaunchQLinearSoftmax(const QLinearSoftmax& softmax, const void* x, void* y, device::Stream stream);

}  // namespace cudaep::kernels
