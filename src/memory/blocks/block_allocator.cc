#include "memory/blocks/block_allocator.h"

#include "memory/out_of_memory.h"

namespace cudaep::memory {

Result<void*> BlockAllocator::Request(size_t bytes, Block block) {
  if (bytes == 0) return nullptr;
  const std::optional<size_t> size = LiveBlocks::RoundUp(bytes);
  block.bytes = size.value_or(0);
  Result<void*> pointer = size ? Serve(block) : OutOfMemory("no memory can be as large");
  if (pointer.ok()) return pointer;
  std::lock_guard lock(mutex_);
  ++live_.stats.failures;
  if (pointer.status().code() != StatusCode::kOutOfMemory) return pointer;
  return OutOfMemoryError(bytes, source_, pointer.status().message(), live_.stats, live_.LargestUsers(kUsersInError));
}

std::vector<MemoryUser> BlockAllocator::LargestUsers(size_t most) const {
  std::lock_guard lock(mutex_);
  return live_.LargestUsers(most);
}

}  // namespace cudaep::memory
