// Which devices multiply 16-bit floats on tensor cores (device/tensor_core.h): what planners ask.
#pragma once

#include "core/data_type.h"
#include "device/device.h"
#include "device/device_info.h"

namespace cudaep::kernels {

inline bool HasTensorCores(DataType type, const device::DeviceInfo& device) {
  const int capability = device.major * 10 + device.minor;
  return type == DataType::kFloat16 ? capability >= 75 : type == DataType::kBFloat16 && capability >= 80;
}

}  // namespace cudaep::kernels
