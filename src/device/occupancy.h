// What of a launch a device holds at once.
#pragma once

#include "core/status.h"
#include "device/launch_config.h"

namespace cudaep::device {

// The clusters of a launch that the current device can have resident at the same time, where nothing else runs: 0, or
// an error, where it can hold none, as a small slice of a device may not. `kernel` is the address of one; nothing is
// launched. The simulated device, which runs blocks one by one, holds no clusters of several.
Status MaxActiveClusters(const void* kernel, const LaunchConfig& config, int* count);

template <class... P>
Status MaxActiveClusters(void (*kernel)(P...), const LaunchConfig& config, int* count) {
  return MaxActiveClusters(reinterpret_cast<const void*>(kernel), config, count);
}

}  // namespace cudaep::device
