// Values limited to a range whose ends are tensors of one element on the device.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "device/device.h"

namespace cudaep::kernels {

struct ClipArgs {
  const void* x = nullptr;
  const void* low = nullptr;   // one element of x's type, or null for no bound
  const void* high = nullptr;  // the same; where low > high every element becomes high
  void* y = nullptr;           // may be x
  int64_t elems = 0;
};

using ClipKernel = Status (*)(const ClipArgs& args, device::Stream stream);

// Null for types that are not numeric. NaN among elements or bounds propagates.
ClipKernel FindClipKernel(DataType type);

}  // namespace cudaep::kernels
