// Refuses memory without a stream: shows who still allocates without saying where the memory will be used.
//
// Allocate for more than zero bytes is kFailedPrecondition and names the calling thread's label. Reserve is allowed:
// weights belong to no stream.
// Threads: any.
#pragma once

#include <atomic>

#include "memory/adaptors/forwarding_allocator.h"

namespace cudaep::memory {

class StrictAllocator final : public ForwardingAllocator {
 public:
  using ForwardingAllocator::ForwardingAllocator;

  Result<void*> Allocate(size_t bytes) override;
  AllocatorStats Stats() const override;

 private:
  std::atomic<int64_t> refused_{0};
};

}  // namespace cudaep::memory
