// The part of a launch that does not depend on the kernel's type.
#pragma once

#include "core/status.h"
#include "device/device.h"

namespace cudaep::device {
struct LaunchConfig;
}

namespace cudaep::device::cuda {

// `arguments` points to one value per parameter. Any thread may call it; it takes no lock.
Status LaunchKernel(const void* kernel, const LaunchConfig& config, Stream stream, void** arguments);

}  // namespace cudaep::device::cuda
