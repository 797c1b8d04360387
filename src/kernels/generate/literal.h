// Values that the host knows when it queues the launch.
#pragma once

#include <cstddef>

#include "device/device.h"

namespace cudaep::kernels {

// Writes `bytes` bytes of host memory, read before this returns, to device memory. They travel as arguments of
// launches, so a CUDA graph that captures them repeats them; meant for some hundred bytes. 0 bytes launch nothing.
Status LaunchLiteral(const void* values, size_t bytes, void* out, device::Stream stream);

}  // namespace cudaep::kernels
