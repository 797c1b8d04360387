// Selection between two tensors by a third, with numpy broadcasting: y = condition ? a : b.
#pragma once

#include <cstddef>

#include "device/device.h"
#include "kernels/elementwise/broadcast.h"

namespace cudaep::kernels {

struct WhereArgs {
  const void* condition = nullptr;  // bool
  const void* a = nullptr;
  const void* b = nullptr;
  void* y = nullptr;
  const Broadcast<3>* broadcast = nullptr;  // of condition, a, b
};

// For elements of 1, 2, 4, 8 or 16 bytes, each aligned to its size.
Status LaunchWhere(size_t elem_bytes, const WhereArgs& args, device::Stream stream);

}  // namespace cudaep::kernels
