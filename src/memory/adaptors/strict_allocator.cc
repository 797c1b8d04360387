#include "memory/adaptors/strict_allocator.h"

#include "memory/allocation_label.h"

namespace cudaep::memory {

Result<void*> StrictAllocator::Allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  refused_.fetch_add(1, std::memory_order_relaxed);
  const char* label = CurrentLabel();
  return FailedPrecondition(label != nullptr ? label : "a caller outside of any node", " asked for ", bytes,
                            " bytes without naming a stream, which the debugging settings forbid");
}

AllocatorStats StrictAllocator::Stats() const {
  AllocatorStats stats = inner().Stats();
  stats.failures += refused_.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace cudaep::memory
