// What allocators have in common whose memory comes block by block from somewhere else: the requests, the blocks that
// are live, statistics, and the error that ends a request.
#pragma once

#include <mutex>
#include <vector>

#include "memory/blocks/live_blocks.h"
#include "memory/memory_source.h"

namespace cudaep::memory {

class BlockAllocator : public Allocator {
 public:
  Result<void*> Allocate(size_t bytes) final { return Request(bytes, {.owner = BlockOwner::kAnyStream}); }
  Result<void*> AllocateOnStream(size_t bytes, device::Stream stream) final {
    return Request(bytes, {.owner = BlockOwner::kStream, .stream = stream});
  }
  Result<void*> Reserve(size_t bytes) final { return Request(bytes, {.owner = BlockOwner::kReserved}); }
  std::vector<MemoryUser> LargestUsers(size_t most) const final;

 protected:
  explicit BlockAllocator(MemorySource source) : source_(std::move(source)) {}

  // One request; `block.bytes` is rounded up. What it returns is live. kOutOfMemory needs no more than the cause as its
  // text. Called without the lock.
  virtual Result<void*> Serve(Block block) = 0;

  const MemorySource source_;
  mutable std::mutex mutex_;
  mutable LiveBlocks live_;  // guarded by mutex_

 private:
  Result<void*> Request(size_t bytes, Block block);
};

}  // namespace cudaep::memory
