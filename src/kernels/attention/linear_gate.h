// The gates of linear attention from their projections: com.microsoft's LinearAttentionGate.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

// decay = scale softplus(a + bias), beta = sigmoid(b), in fp32; the last dimension of all is `heads`.
struct LinearGates {
  DataType type = DataType::kFloat;  // of a, b, decay and beta: kFloatTypesNoDouble
  int64_t elems = 0, heads = 0;
  const void* a = nullptr;
  const float *bias = nullptr, *scale = nullptr;  // [heads]
  const void* b = nullptr;
  void *decay = nullptr, *beta = nullptr;  // null: not wanted. May be a and b.
};

Status LaunchLinearGates(const LinearGates& gates, device::Stream stream);

}  // namespace cudaep::kernels
