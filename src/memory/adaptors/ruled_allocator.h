// What a configuration asks for beside the allocator it names.
//
// - Before a request fails for want of memory, idle memory of every allocator on the device is given back, and the
//   request is made once more: what one cache keeps must not starve weights, scratch memory or another cache. No lock
//   is held meanwhile. A request above the configuration's limit fails at once.
// - For debugging, a request of a given number fails, with kOutOfMemory and naming the request, and so do all that name
//   no stream, with kFailedPrecondition and the calling thread's label (Reserve may: weights belong to no stream).
//   Requests are calls for more than zero bytes, counted from 1 in the order in which they arrive.
// - The device layer is told which blocks are handed out (device::DeclareBlock): the simulated device then finds uses
//   of memory that was freed into an arena, or that belongs to nobody there.
//
// A request that is refused here never reaches the inner allocator. Statistics are that one's and the refusals.
// Threads: any; the count is exact.
#pragma once

#include <atomic>
#include <cstdint>

#include "memory/adaptors/forwarding_allocator.h"

namespace cudaep::memory {

// Allocators that share one count together.
struct FaultCounter {
  explicit FaultCounter(uint64_t fails) : fails(fails) {}
  const uint64_t fails;  // the request of this number; 0: none
  std::atomic<uint64_t> requests{0};
};

struct RequestRules {
  bool declares = false;
  bool reclaims = false;
  int ordinal = 0;         // of the device to reclaim
  size_t limit_bytes = 0;  // 0: none
  bool requires_stream = false;
  std::shared_ptr<FaultCounter> faults = nullptr;  // null: no request fails
};

class RuledAllocator final : public ForwardingAllocator {
 public:
  RuledAllocator(std::shared_ptr<Allocator> inner, RequestRules rules)
      : ForwardingAllocator(std::move(inner)), rules_(std::move(rules)) {}

  Result<void*> Allocate(size_t bytes) override;
  Result<void*> AllocateOnStream(size_t bytes, device::Stream stream) override;
  Result<void*> Reserve(size_t bytes) override;
  void Free(void* pointer) override;
  AllocatorStats Stats() const override;

 private:
  template <class F>
  Result<void*> Serve(size_t bytes, F&& request);
  Status CountRequest(size_t bytes);

  const RequestRules rules_;
  std::atomic<int64_t> refused_{0};
};

}  // namespace cudaep::memory
