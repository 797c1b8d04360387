// Fills memory with one repeated element.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"

namespace cudaep::kernels {

// `elem_bytes` (1, 2, 4, 8 or 16) bytes at `element`, in host memory, `elems` times.
Status LaunchFill(const void* element, size_t elem_bytes, int64_t elems, void* out, device::Stream stream);

}  // namespace cudaep::kernels
