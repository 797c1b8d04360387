// Before a request fails for want of memory, idle memory of every allocator on the device is given back, and the
// request is made once more: what one cache keeps must not starve weights, scratch memory or another cache.
//
// A request above the configuration's limit fails at once. Threads: any; no lock is held while memory is given back.
#pragma once

#include "memory/adaptors/forwarding_allocator.h"
#include "memory/memory_registry.h"

namespace cudaep::memory {

class ReclaimingAllocator final : public ForwardingAllocator {
 public:
  // `limit_bytes` 0: none.
  ReclaimingAllocator(std::shared_ptr<Allocator> inner, int ordinal, size_t limit_bytes)
      : ForwardingAllocator(std::move(inner)), ordinal_(ordinal), limit_bytes_(limit_bytes) {}

  Result<void*> Allocate(size_t bytes) override {
    return Retry(bytes, [&] { return inner().Allocate(bytes); });
  }
  Result<void*> AllocateOnStream(size_t bytes, device::Stream stream) override {
    return Retry(bytes, [&] { return inner().AllocateOnStream(bytes, stream); });
  }
  Result<void*> Reserve(size_t bytes) override {
    return Retry(bytes, [&] { return inner().Reserve(bytes); });
  }

 private:
  template <class F>
  Result<void*> Retry(size_t bytes, F&& request) {
    Result<void*> pointer = request();
    if (pointer.ok() || pointer.status().code() != StatusCode::kOutOfMemory) [[likely]]
      return pointer;
    if (limit_bytes_ != 0 && bytes > limit_bytes_) return pointer;
    ReclaimIdleMemory(ordinal_);
    return request();
  }

  const int ordinal_;
  const size_t limit_bytes_;
};

}  // namespace cudaep::memory
