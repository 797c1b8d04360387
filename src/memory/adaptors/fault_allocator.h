// Fails chosen requests of another allocator, for tests and for the debugging option that asks for it.
//
// Requests are the calls of Allocate, AllocateOnStream and Reserve for more than zero bytes, counted from 1 in the
// order in which they arrive; allocators that share a counter count together. A failed one never reaches the inner
// allocator; its error is kOutOfMemory and names the request. Statistics are the inner allocator's plus the injected
// failures.
// Threads: any; the count is exact.
#pragma once

#include <atomic>
#include <cstdint>

#include "memory/adaptors/forwarding_allocator.h"

namespace cudaep::memory {

class FaultCounter {
 public:
  enum class Extent : uint8_t { kOnce, kFromThenOn };

  // `request` 0 fails none.
  FaultCounter(uint64_t request, Extent extent) : request_(request), extent_(extent) {}

  // Counts a request; the error of one that is to fail.
  Status Next(size_t bytes);
  uint64_t requests() const { return requests_.load(std::memory_order_relaxed); }

 private:
  const uint64_t request_;
  const Extent extent_;
  std::atomic<uint64_t> requests_{0};
};

class FaultAllocator final : public ForwardingAllocator {
 public:
  using Extent = FaultCounter::Extent;

  FaultAllocator(std::shared_ptr<Allocator> inner, std::shared_ptr<FaultCounter> counter)
      : ForwardingAllocator(std::move(inner)), counter_(std::move(counter)) {}
  // With a counter of its own.
  FaultAllocator(std::shared_ptr<Allocator> inner, uint64_t request, Extent extent)
      : FaultAllocator(std::move(inner), std::make_shared<FaultCounter>(request, extent)) {}

  Result<void*> Allocate(size_t bytes) override;
  Result<void*> AllocateOnStream(size_t bytes, device::Stream stream) override;
  Result<void*> Reserve(size_t bytes) override;
  AllocatorStats Stats() const override;

  uint64_t requests() const { return counter_->requests(); }

 private:
  Status Next(size_t bytes);

  const std::shared_ptr<FaultCounter> counter_;
  std::atomic<int64_t> injected_{0};
};

}  // namespace cudaep::memory
