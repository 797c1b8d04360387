// Memory of the caller's own allocator, taken through C callbacks: gpu_external_alloc, gpu_external_free and
// gpu_external_empty_cache. Every block is one call of `alloc` and later one of `free`.
//
// What users pass: for PyTorch the addresses of c10::cuda::CUDACachingAllocator's raw_alloc (void*(size_t)), raw_delete
// (void(void*)) and emptyCache, or of small functions around them. emptyCache takes nothing in older releases and a
// pool's identifier, two 64-bit integers by value, in newer ones: it is called with two zeros, which means "no
// particular pool" to the latter and nothing to the former under the calling conventions of x86-64 and AArch64 Linux.
//
// Streams: such an allocator orders its blocks by one stream, the caller's current one, and knows nothing of ours.
//  - A block that `alloc` returns may still be used by work queued on the caller's stream. The stream it is for is made
//    to wait for that work; for memory without a stream the host waits.
//  - A freed block is given to `free` only when the work queued on its stream by then is known to be done, because the
//    caller may reuse it at once. Until then its own stream may have it again.
//  - On the caller's own stream (the session's user_compute_stream) neither is needed: blocks come and go at once.
//  `caller_stream` names that stream; null is the legacy default stream, which is PyTorch's unless the caller switched
//  to another with torch.cuda.stream. A caller that allocates on a stream that is not named here races with us.
//
// Threads: callbacks are made from any thread, several at a time, with the device current and without a lock of ours:
// they may take the interpreter's lock while another thread holds it and frees memory here.
// Capture: memory/allocator.h's rule; nothing is asked of the caller for a capturing stream.
// Failure: null or an exception from `alloc` is kOutOfMemory with the exception's text; an exception from `free` or
// `empty_cache` is logged. Memory that is not the device's or not aligned is given back and refused.
#pragma once

#include <memory>
#include <vector>

#include "memory/blocks/block_allocator.h"

namespace cudaep::memory {

struct ExternalCallbacks {
  void* (*alloc)(size_t bytes) = nullptr;
  void (*free)(void* pointer) = nullptr;
  void (*empty_cache)() = nullptr;  // null: nothing is called by Shrink
  device::Stream caller_stream = nullptr;
};

class ExternalAllocator final : public BlockAllocator {
 public:
  // `budget` may be null. kInvalidArgument when `alloc` or `free` is null.
  static Result<std::unique_ptr<ExternalAllocator>> Create(int ordinal, const ExternalCallbacks& callbacks,
                                                           std::shared_ptr<Budget> budget);
  // Waits for the work that may use memory of this allocator, and gives all of it back.
  ~ExternalAllocator() override { End(); }

  AllocatorStats Stats() const override;

 private:
  ExternalAllocator(int ordinal, const ExternalCallbacks& callbacks, std::shared_ptr<Budget> budget)
      : BlockAllocator({MemoryKind::kDevice, ordinal, std::move(budget), BudgetKind::kArena}), callbacks_(callbacks) {}

  Result<void*> Serve(Block* block, const device::Stream* stream) override;
  After Freed(void* pointer, const Block& block, device::Stream stream) override;
  void GiveBack(std::span<Held> blocks) override;
  Status Trim() override;  // calls `empty_cache`
  Result<void*> FromCaller(size_t bytes);
  Result<void*> CallAlloc(size_t bytes);
  void CallFree(void* pointer);
  Status Check(void* pointer) const;
  Status OrderAfterCaller(size_t bytes, const device::Stream* stream);
  bool IsCallerStream(device::Stream stream) const;

  const ExternalCallbacks callbacks_;
};

}  // namespace cudaep::memory
