// No arena: every allocation is the driver's own, and so is every free, for which the driver waits for the device.
//
// For weights, scratch blocks and the mode "none". Streams do not matter: memory is handed out again only by the
// driver. On a capturing stream the request is refused.
#pragma once

#include <mutex>

#include "memory/live_blocks.h"
#include "memory/memory_source.h"

namespace cudaep::memory {

class DirectAllocator final : public Allocator {
 public:
  explicit DirectAllocator(MemorySource source) : source_(std::move(source)) {}
  ~DirectAllocator() override;

  Result<void*> Allocate(size_t bytes) override { return Take(bytes, BlockOwner::kAnyStream); }
  Result<void*> AllocateOnStream(size_t bytes, device::Stream stream) override;
  Result<void*> Reserve(size_t bytes) override { return Take(bytes, BlockOwner::kReserved); }
  void Free(void* pointer) override;
  void AddStream(device::Stream) override {}
  void ReleaseStream(device::Stream) override {}
  void StreamIdle(device::Stream) override {}
  Status Shrink() override;
  AllocatorStats Stats() const override;
  std::vector<MemoryUser> LargestUsers(size_t most) const override;

 private:
  Result<void*> Take(size_t bytes, BlockOwner owner);
  Status Fail(size_t bytes, const Status& why);

  const MemorySource source_;
  mutable std::mutex mutex_;
  LiveBlocks blocks_;  // guarded by mutex_
};

}  // namespace cudaep::memory
