// What allocators have in common whose memory comes block by block from somewhere else (the driver, its pool, the
// caller's callbacks): requests, the blocks that are live, statistics, the error that ends a request, and the order of
// streams (memory/stream_order.h).
//
// A freed block that queued work may still use, or that a captured graph may have recorded, is held: it goes back once
// the streams it waits for are past its points, and never before its stream is released while it is `captured`. Until
// then its own stream may have it again. Searches are linear: few blocks are held at a time.
#pragma once

#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "memory/allocator.h"
#include "memory/memory_source.h"
#include "memory/stream_order.h"

namespace cudaep::memory {

class BlockAllocator : public Allocator {
 public:
  Result<void*> Allocate(size_t bytes) final { return Request(bytes, nullptr, false); }
  Result<void*> AllocateOnStream(size_t bytes, device::Stream stream) final { return Request(bytes, &stream, false); }
  Result<void*> Reserve(size_t bytes) final { return Request(bytes, nullptr, true); }
  void Free(void* pointer) final;
  void AddStream(device::Stream stream) final;
  void ReleaseStream(device::Stream stream) final;
  StreamMark Mark(device::Stream stream) final;
  void Reached(const StreamMark& mark) final;
  // Waits for the work of freed blocks and gives them back.
  Status Shrink() final;
  AllocatorStats Stats() const override;
  std::vector<MemoryUser> LargestUsers(size_t most) const final;

 protected:
  using Lock = std::unique_lock<std::mutex>;
  struct Block {
    size_t bytes = 0;
    const char* label = nullptr;
    StreamOrder::Slot slot = StreamOrder::kNobody;  // of the stream it was asked for on, if that was named
    uint32_t life = 0;                              // of that stream
    bool captured = false;                          // used while the stream captured: it stays with the stream
    bool reserved = false;
    bool direct = false;  // the driver's own allocation, which waits for the device when it is freed
  };
  struct Held {
    void* pointer = nullptr;
    Block block;
    std::vector<StreamOrder::Point> points;  // all must be past
  };
  // What a block that is freed on a stream waits for.
  enum class After : uint8_t {
    kNothing,
    kStream,
    kGone,  // it has gone back, in the stream's order
  };

  explicit BlockAllocator(MemorySource source) : source_(std::move(source)) {}

  // One request; `block->bytes` is rounded up and may be made more, `stream` is null where none was named. What is
  // returned is live. kOutOfMemory needs no more than the cause as its text. The lock is not held.
  virtual Result<void*> Serve(Block* block, const device::Stream* stream) = 0;
  // A block is freed after work on its stream; with the lock.
  virtual After Freed(void*, const Block&, device::Stream) { return After::kStream; }
  // Nobody uses these any more; called when streams were waited for, too. The device is current, the lock not held. The
  // base gives direct blocks back to the driver. Their order may change.
  virtual void GiveBack(std::span<Held> blocks);
  // The last of a shrink; the lock is not held.
  virtual Status Trim() { return Status::Ok(); }

  // A held block that serves the request, which gets its size and mark; null for none. For a capturing stream only its
  // own blocks do, however large, and without one it is kFailedPrecondition: `source` cannot be asked. For others those
  // do that are little larger than asked for.
  Result<void*> FromHeld(Block* request, const device::Stream* stream, const char* source);
  // Memory of the driver's for one block; with the lock.
  Result<void*> TakeDirectly(Block* block);
  // With the lock: the block is tried again later.
  void Hold(Held held) { held_.push_back(std::move(held)); }
  // Waits, without the lock, until what was freed so far is done, and gives it back; whether that was anything.
  Result<bool> WaitForFreed();
  // Gives everything back; for destructors of those that override GiveBack.
  void End();

  const MemorySource source_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  StreamOrder order_;
  mutable AllocatorStats stats_;

 private:
  Result<void*> Request(size_t bytes, const device::Stream* stream, bool reserved);
  void* TakeHeld(Block* request);
  bool IsPast(const Held& held) const;
  std::vector<Held> TakePast();
  std::vector<MemoryUser> UsersLocked(size_t most) const;

  std::unordered_map<void*, Block> live_;  // guarded by mutex_
  std::vector<Held> held_;                 // guarded by mutex_
};

}  // namespace cudaep::memory
