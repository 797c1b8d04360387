// Memory of a stream-ordered pool of the driver's, one of our own: the device's default pool belongs to everybody.
//
// Streams: the driver knows them. Memory goes back to the pool on the stream it was allocated on, serves that stream at
// once and another when the free has run or an event orders the two; no stream is made to wait for another.
// Memory without a stream is allocated on a stream of this allocator that never has other work, so that it is ready
// when the call returns. Once freed it is held until the work that the known streams had queued by then is done; it
// then serves the next such request or goes back to the pool. Memory of a released stream goes back on the allocator's
// own stream.
//
// Capture: the pool is not asked for a capturing stream. What that stream freed during a capture, or got, it may have
// again; otherwise the answer is kFailedPrecondition. Sessions that capture graphs should use the arena.
//
// What the pool keeps: at each synchronisation of the host with the device the driver gives back what is unused above
// pool_release_threshold_bytes, and Shrink all but pool_bytes_to_keep_on_shrink. It takes and gives memory in steps
// (32 MiB on an H200 with CUDA 13): a limit below that admits nothing, and up to a step of a limit cannot be used.
//
// Account: the budget is charged with what the pool has reserved, as the driver says, after every call here that could
// have changed it, and with what was taken by Reserve. The driver may have given more back since the last call, never
// taken more. Where a request makes the pool grow over the limit, it is undone before the call returns.
//
// Reserve takes memory from the driver directly, outside of the pool, and Free gives it back.
// Threads: one lock, held during the driver's pool calls, not while work is waited for.
#pragma once

#include <memory>
#include <vector>

#include "memory/arena_config.h"
#include "memory/blocks/block_allocator.h"

namespace cudaep::memory {

class PoolAllocator final : public BlockAllocator {
 public:
  // `budget` may be null. kNotSupported where the driver has no pools.
  static Result<std::unique_ptr<PoolAllocator>> Create(int ordinal, const ArenaConfig& config,
                                                       std::shared_ptr<Budget> budget);
  // Waits for the device when memory was not freed or is still held.
  ~PoolAllocator() override;

  AllocatorStats Stats() const override;

 private:
  PoolAllocator(int ordinal, const ArenaConfig& config, std::shared_ptr<Budget> budget);

  Result<void*> Serve(Block* block, const device::Stream* stream) override;
  After Freed(void* pointer, const Block& block, device::Stream stream) override;
  void GiveBack(std::span<Held> blocks) override;
  Status Trim() override { return TrimTo(config_.pool_bytes_to_keep_on_shrink); }
  // One attempt, with the lock; without a stream it is memory that is ready for all of them.
  Result<void*> Take(Block* block, const device::Stream* stream);
  Status TrimTo(size_t bytes);
  // Whether the limits leave room for `more` bytes.
  bool HasRoom(size_t more) const;
  // Asks what the pool holds and brings statistics and budget up to it. False when that is over the limit.
  bool Update() const;
  Status WaitForOwnStream();

  const ArenaConfig config_;
  device::UniqueMemoryPool pool_;
  device::UniqueStream own_stream_;

  mutable size_t pool_bytes_ = 0;  // reserved by the pool, as charged; guarded by mutex_
  size_t used_pool_bytes_ = 0;     // of live and held blocks of the pool; guarded by mutex_
};

}  // namespace cudaep::memory
