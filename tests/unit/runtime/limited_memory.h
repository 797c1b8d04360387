// A session's device memory under a limit.
#pragma once

#include "memory/memory_registry.h"

namespace cudaep::testing {

// Of the first device; 0: no limit.
inline std::shared_ptr<memory::DeviceMemory> LimitedMemory(size_t limit_bytes) {
  memory::MemoryConfig config;
  config.limit_bytes = limit_bytes;
  return memory::AcquireDeviceMemory(config).value();
}

}  // namespace cudaep::testing
