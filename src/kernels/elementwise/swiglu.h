// The gated activation of com.microsoft's SwiGLU.
#pragma once

#include "core/data_type.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kSwiGluTypes = kFloatTypesNoDouble;

// y[r, i] = g * sigmoid(alpha * g) * (u + beta), where g is gate[r, i], u is up[r, i], and both have `row_step`
// elements from row to row. A limit above 0 bounds g from above and u on both sides. fp32 arithmetic.
struct SwiGluArgs {
  DataType type = DataType::kFloat;
  const void *gate = nullptr, *up = nullptr;
  void* y = nullptr;
  int64_t rows = 0, columns = 0, row_step = 0;
  float alpha = 1, beta = 0, limit = 0;
  bool rounds_activation = false;  // to the type, before the product
};
Status LaunchSwiGlu(const SwiGluArgs& args, device::Stream stream);

}  // namespace cudaep::kernels
