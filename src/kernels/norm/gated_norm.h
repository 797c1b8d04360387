// Rows divided by their root mean square, times a scale and an activated gate: com.microsoft's GatedRMSNorm.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

// y = x / sqrt(mean of the row's x^2 + epsilon) * scale * act(gate), in fp32, rounded once. x, gate and y are [rows,
// columns] and y may be either; scale is [columns].
struct GatedNorm {
  DataType type = DataType::kFloat;  // kFloatTypesNoDouble
  bool sigmoid = false;              // the activation: sigmoid(g), or g sigmoid(g)
  float epsilon = 0;
  int64_t rows = 0, columns = 0;
  const void *x = nullptr, *scale = nullptr, *gate = nullptr;
  void* y = nullptr;
};

// One launch; memory bound.
Status LaunchGatedNorm(const GatedNorm& norm, device::Stream stream);

}  // namespace cudaep::kernels
