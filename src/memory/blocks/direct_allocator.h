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
  ~DirectAllocator() override;

  void Free(void* pointer) override;
  void AddStream(device::Stream) override {}
  void ReleaseStream(device::Stream) override {}
  StreamMark Mark(device::Stream) override { return {}; }
  void Reached(const StreamMark&) override {}
  Status Shrink() override;
  AllocatorStats Stats() const override;

 private:
  Result<void*> Serve(Block block) override;
};

}  // namespace cudaep::memory
