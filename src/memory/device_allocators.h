// Which allocators a configuration means: the one place that knows all of them.
#pragma once

#include <memory>

#include "memory/allocator.h"
#include "memory/budget.h"
#include "memory/memory_config.h"

namespace cudaep::memory {

struct DeviceAllocators {
  std::shared_ptr<Allocator> tensors;     // by the configuration's mode
  std::shared_ptr<Allocator> weights;     // every allocation is the driver's, since these stay for long
  std::shared_ptr<Allocator> workspaces;  // likewise
};

// With callbacks of the caller all three are one allocator, so that the caller sees every byte.
Result<DeviceAllocators> MakeDeviceAllocators(const MemoryConfig& config, const std::shared_ptr<Budget>& budget);

// An arena with the default configuration.
std::shared_ptr<Allocator> MakePinnedAllocator(int ordinal);

}  // namespace cudaep::memory
