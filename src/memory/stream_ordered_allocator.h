// A caching allocator with one free list a stream and size: freed memory goes to the next request of its own stream.
//
// Sizes are rounded to a step of at most an eighth, so few distinct sizes exist and a steady Run takes nothing from the
// driver. Chunks of a released stream, and those allocated without a stream, become free for everybody. No chunk is
// split or merged; the best-fit arena takes this allocator's place as the default (issue 4).
//
// Untagged memory (Allocate, Reserve) goes back to the driver when freed: the driver waits for the device first, which
// is the only order that is right when nobody said which streams used it.
// Threads: one mutex, held while the driver is called only when the cache missed.
#pragma once

#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "memory/allocator.h"
#include "memory/memory_source.h"

namespace cudaep::memory {

class StreamOrderedAllocator final : public Allocator {
 public:
  // `limit_bytes` 0 means none; it counts what was taken from the driver.
  explicit StreamOrderedAllocator(MemorySource source, size_t limit_bytes = 0)
      : source_(source), limit_bytes_(limit_bytes) {}
  ~StreamOrderedAllocator() override;

  Result<void*> Allocate(size_t bytes) override;
  Result<void*> AllocateOnStream(size_t bytes, device::Stream stream) override;
  Result<void*> Reserve(size_t bytes) override;
  void Free(void* pointer) override;
  void ReleaseStream(device::Stream stream) override;
  Status Shrink() override;
  AllocatorStats Stats() const override;

 private:
  struct Chunk {
    size_t bytes = 0;
    device::Stream stream = nullptr;
    bool tagged = false;  // belongs to `stream`; otherwise to nobody
  };
  using FreeLists = std::map<std::pair<device::Stream, size_t>, std::vector<void*>>;

  Result<void*> TakeFromDriver(size_t bytes);
  Result<void*> Untagged(size_t bytes);
  void* PopFree(FreeLists::iterator list);
  void GiveBackIdle();
  void Count(size_t bytes);

  const MemorySource source_;
  const size_t limit_bytes_;
  mutable std::mutex mutex_;
  std::unordered_map<void*, Chunk> chunks_;  // live and free; guarded by mutex_
  FreeLists free_;                           // by stream; null is for everybody; guarded by mutex_
  AllocatorStats stats_;                     // guarded by mutex_
};

}  // namespace cudaep::memory
