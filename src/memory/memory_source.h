// Where an allocator takes its memory from: one device, or page-locked host memory.
#pragma once

#include "core/status.h"
#include "device/device.h"

namespace cudaep::memory {

enum class MemoryKind : uint8_t { kDevice, kPinnedHost };

struct MemorySource {
  MemoryKind kind = MemoryKind::kDevice;
  int ordinal = 0;

  Status Take(void** pointer, size_t bytes) const;
  Status Give(void* pointer) const;
};

}  // namespace cudaep::memory
