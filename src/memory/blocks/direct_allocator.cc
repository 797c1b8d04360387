#include "memory/blocks/direct_allocator.h"

#include "memory/stream_progress.h"

namespace cudaep::memory {

DirectAllocator::~DirectAllocator() {
  live_.ForEach([this](void* pointer, const Block& block) { source_.Return(pointer, block.bytes).IgnoreError(); });
}

Result<void*> DirectAllocator::Serve(Block block) {
  if (block.owner == BlockOwner::kStream && IsCapturing(block.stream)) {
    return FailedPrecondition("memory of ", block.bytes,
                              " bytes cannot come from the driver while its stream is captured");
  }
  void* pointer = nullptr;
  CUDAEP_RETURN_IF_ERROR(source_.Acquire(&pointer, block.bytes));
  std::lock_guard lock(mutex_);
  live_.stats.CountTaken(block.bytes);
  live_.Insert(pointer, block);
  return pointer;
}

void DirectAllocator::Free(void* pointer) {
  if (pointer == nullptr) return;
  std::optional<Block> block;
  {
    std::lock_guard lock(mutex_);
    block = live_.Remove(pointer);
    if (!block.has_value()) return;
    live_.stats.CountGiven(block->bytes);
  }
  source_.Return(pointer, block->bytes).IgnoreError();
}

Status DirectAllocator::Shrink() {
  std::lock_guard lock(mutex_);
  ++live_.stats.shrinks;
  return Status::Ok();
}

AllocatorStats DirectAllocator::Stats() const {
  std::lock_guard lock(mutex_);
  return live_.stats;
}

}  // namespace cudaep::memory
