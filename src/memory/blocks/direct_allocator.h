// No arena: every allocation is the driver's own, and so is every free, for which the driver waits for the device.
//
// For weights, scratch blocks and the mode "none". Streams do not matter: memory is handed out again only by the
// driver. On a capturing stream the request is refused.
#pragma once

#include "memory/blocks/block_allocator.h"

namespace cudaep::memory {

class DirectAllocator final : public BlockAllocator {
 public:
  explicit DirectAllocator(MemorySource source) : BlockAllocator(std::move(source)) {}
  ~DirectAllocator() override { End(); }

 private:
  Result<void*> Serve(Block* block, const device::Stream* stream) override {
    if (stream != nullptr && IsCapturing(*stream)) {
      return FailedPrecondition("memory of ", block->bytes,
                                " bytes cannot come from the driver while its stream is captured");
    }
    Lock lock(mutex_);
    return TakeDirectly(block);
  }
};

}  // namespace cudaep::memory
