#include "memory/direct_allocator.h"

#include "memory/out_of_memory.h"
#include "memory/stream_progress.h"

namespace cudaep::memory {

DirectAllocator::~DirectAllocator() {
  blocks_.ForEach([this](void* pointer, const Block& block) { source_.Give(pointer, block.bytes).IgnoreError(); });
}

Result<void*> DirectAllocator::AllocateOnStream(size_t bytes, device::Stream stream) {
  if (bytes != 0 && IsCapturing(stream)) {
    std::lock_guard lock(mutex_);
    ++blocks_.stats.failures;
    return FailedPrecondition("memory of ", bytes, " bytes cannot come from the driver while its stream is captured");
  }
  return Take(bytes, BlockOwner::kStream);
}

Result<void*> DirectAllocator::Take(size_t bytes, BlockOwner owner) {
  if (bytes == 0) return nullptr;
  const std::optional<size_t> size = LiveBlocks::RoundUp(bytes);
  void* pointer = nullptr;
  const Status status = size.has_value() ? source_.Take(&pointer, *size) : OutOfMemory("no memory can be as large");
  if (!status.ok()) return Fail(bytes, status);
  std::lock_guard lock(mutex_);
  blocks_.CountReserved(*size);
  ++blocks_.stats.driver_allocations;
  blocks_.Insert(pointer, {.bytes = *size, .owner = owner});
  return pointer;
}

Status DirectAllocator::Fail(size_t bytes, const Status& why) {
  std::lock_guard lock(mutex_);
  ++blocks_.stats.failures;
  if (why.code() != StatusCode::kOutOfMemory) return why;
  return OutOfMemoryError(bytes, source_, why.message(), blocks_.stats, blocks_.LargestUsers(kUsersInError));
}

void DirectAllocator::Free(void* pointer) {
  if (pointer == nullptr) return;
  std::optional<Block> block;
  {
    std::lock_guard lock(mutex_);
    block = blocks_.Remove(pointer);
    if (!block.has_value()) return;
    blocks_.CountGivenBack(block->bytes);
    ++blocks_.stats.driver_frees;
  }
  source_.Give(pointer, block->bytes).IgnoreError();
}

Status DirectAllocator::Shrink() {
  std::lock_guard lock(mutex_);
  ++blocks_.stats.shrinks;
  return Status::Ok();
}

AllocatorStats DirectAllocator::Stats() const {
  std::lock_guard lock(mutex_);
  return blocks_.stats;
}

std::vector<MemoryUser> DirectAllocator::LargestUsers(size_t most) const {
  std::lock_guard lock(mutex_);
  return blocks_.LargestUsers(most);
}

}  // namespace cudaep::memory
