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
#include <string>
#include <unordered_map>
#include <vector>

#include "memory/arena_config.h"
#include "memory/blocks/block_allocator.h"
#include "memory/blocks/held_blocks.h"
#include "memory/stream_progress.h"

namespace cudaep::memory {

class PoolAllocator final : public BlockAllocator {
 public:
  // `budget` may be null. kNotSupported where the driver has no pools.
  static Result<std::unique_ptr<PoolAllocator>> Create(int ordinal, const ArenaConfig& config,
                                                       std::shared_ptr<Budget> budget);
  // Waits for the device when memory was not freed or is still held.
  ~PoolAllocator() override;

  void Free(void* pointer) override;
  void AddStream(device::Stream stream) override;
  void ReleaseStream(device::Stream stream) override;
  StreamMark Mark(device::Stream stream) override;
  void Reached(const StreamMark& mark) override;
  Status Shrink() override;
  AllocatorStats Stats() const override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  PoolAllocator(int ordinal, const ArenaConfig& config, std::shared_ptr<Budget> budget);

  Result<void*> Serve(Block block) override;
  Result<void*> FromHeld(size_t bytes, Block* block);
  // Takes `bytes` from the pool; when there is no memory, waits for what was freed and tries once more.
  Result<void*> FromPool(Lock& lock, size_t bytes, device::Stream stream);
  Result<void*> TryPool(size_t bytes, device::Stream stream);
  // The lock is not held while the driver is called.
  Result<void*> TakeDirectly(Lock& lock, size_t bytes);
  // Whether the limits leave room for `more` bytes.
  bool HasRoom(size_t more) const;
  // Asks what the pool holds and brings statistics and budget up to it. False when that is over the limit.
  bool Update() const;
  // To the pool, on the stream that is ordered after the work which used it.
  void GiveToPool(std::vector<HeldBlock> blocks);
  void FreeOn(device::Stream stream, HeldBlock held);
  // Waits, without the lock, until all that was freed so far is unused in the pool, and trims it.
  Status EmptyPool(Lock& lock, size_t bytes_to_keep);
  Status WaitForOwnStream();

  const ArenaConfig config_;
  device::UniqueMemoryPool pool_;
  device::UniqueStream own_stream_;

  mutable size_t pool_bytes_ = 0;  // reserved by the pool, as charged; guarded by mutex_
  size_t used_pool_bytes_ = 0;     // of live and held blocks of the pool; guarded by mutex_
  size_t direct_bytes_ = 0;        // taken by Reserve; guarded by mutex_
  HeldBlocks held_;                // guarded by mutex_
  StreamProgress progress_;        // guarded by mutex_
  uint64_t frees_ = 0;             // queued so far; guarded by mutex_
  // Streams whose queues may hold frees, and the last of them; guarded by mutex_.
  std::unordered_map<device::Stream, uint64_t> freed_on_;
};

}  // namespace cudaep::memory
