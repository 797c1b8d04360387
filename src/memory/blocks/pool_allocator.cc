#include "memory/blocks/pool_allocator.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "memory/relaxed_capture.h"

namespace cudaep::memory {

PoolAllocator::PoolAllocator(int ordinal, const ArenaConfig& config, std::shared_ptr<Budget> budget)
    : BlockAllocator({MemoryKind::kDevice, ordinal, std::move(budget), BudgetKind::kArena}), config_(config) {}

Result<std::unique_ptr<PoolAllocator>> PoolAllocator::Create(int ordinal, const ArenaConfig& config,
                                                             std::shared_ptr<Budget> budget) {
  std::unique_ptr<PoolAllocator> made(new PoolAllocator(ordinal, config, std::move(budget)));
  device::DeviceGuard guard(ordinal);
  CUDAEP_RETURN_IF_ERROR(guard.status());
  CUDAEP_RETURN_IF_ERROR(device::MemoryPoolCreate(made->pool_.Receive(), ordinal));
  CUDAEP_RETURN_IF_ERROR(device::MemoryPoolSetReleaseThreshold(made->pool_.get(), config.pool_release_threshold_bytes));
  CUDAEP_RETURN_IF_ERROR(device::StreamCreate(made->own_stream_.Receive()));
  return made;
}

PoolAllocator::~PoolAllocator() {
  End();
  source_.Release(pool_bytes_);
}

Result<void*> PoolAllocator::Serve(Block* block, const device::Stream* stream) {
  device::DeviceGuard guard(source_.ordinal);
  CUDAEP_RETURN_IF_ERROR(guard.status());
  RelaxedCapture relaxed;
  if (!block->reserved) {
    CUDAEP_ASSIGN_OR_RETURN(void* held, FromHeld(block, stream, "the driver's pool"));
    if (held != nullptr) return held;
  }
  Result<void*> pointer = Take(block, stream);
  if (pointer.status().code() != StatusCode::kOutOfMemory) return pointer;
  CUDAEP_RETURN_IF_ERROR(WaitForFreed().status());
  CUDAEP_RETURN_IF_ERROR(TrimTo(0));
  return Take(block, stream);
}

Result<void*> PoolAllocator::Take(Block* block, const device::Stream* stream) {
  Lock lock(mutex_);
  const size_t bytes = block->bytes, before = pool_bytes_;
  // Where the pool is certain to grow, the refusal costs nothing.
  const size_t spare = block->reserved ? 0 : before - std::min(before, used_pool_bytes_);
  if (bytes > spare && !HasRoom(bytes - spare)) return OutOfMemory("the memory limit is reached");
  if (block->reserved) return TakeDirectly(block);
  const device::Stream on = stream != nullptr ? *stream : own_stream_.get();
  void* pointer = nullptr;
  CUDAEP_RETURN_IF_ERROR(device::MallocFromPoolAsync(&pointer, bytes, pool_.get(), on));
  Status status = stream == nullptr ? WaitForOwnStream() : Status::Ok();
  if (status.ok() && Update()) {
    used_pool_bytes_ += bytes;
    return pointer;
  }
  // Undone with a wait: the pool can give back only what is freed.
  device::FreeAsync(pointer, on).IgnoreError();
  CUDAEP_RETURN_IF_ERROR(status);
  CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(on));
  CUDAEP_RETURN_IF_ERROR(device::MemoryPoolTrim(pool_.get(), before));
  Update();
  return OutOfMemory("the memory limit is reached: the driver's pool grows in steps");
}

bool PoolAllocator::HasRoom(size_t more) const {
  const size_t most = config_.max_bytes, taken = static_cast<size_t>(stats_.bytes_reserved);
  if (most != 0 && (taken > most || more > most - taken)) return false;
  return source_.budget == nullptr || more <= source_.budget->available_bytes();
}

bool PoolAllocator::Update() const {
  device::MemoryPoolStats pool;
  if (!device::MemoryPoolGetStats(pool_.get(), &pool).ok()) return true;  // nothing is known to be wrong
  const size_t now = pool.reserved_bytes, before = std::exchange(pool_bytes_, now);
  if (now < before) {
    stats_.CountGiven(before - now);
    source_.Release(before - now);
  }
  if (now <= before) return true;
  stats_.CountTaken(now - before);
  const bool fits = source_.Charge(now - before).ok();
  if (!fits) source_.budget->ChargeMeasured(BudgetKind::kArena, now - before);
  return fits && (config_.max_bytes == 0 || static_cast<size_t>(stats_.bytes_reserved) <= config_.max_bytes);
}

// Refused, it is tried again on our stream, once what uses it is done.
PoolAllocator::After PoolAllocator::Freed(void* pointer, const Block& block, device::Stream stream) {
  const Status status = device::FreeAsync(pointer, stream);
  if (!status.ok() && status.code() != StatusCode::kDeviceLost) return After::kStream;
  used_pool_bytes_ -= block.bytes;
  return After::kGone;
}

void PoolAllocator::GiveBack(std::span<Held> blocks) {
  const auto direct = std::partition(blocks.begin(), blocks.end(), [](const Held& held) { return !held.block.direct; });
  BlockAllocator::GiveBack({direct, blocks.end()});
  blocks = {blocks.begin(), direct};
  std::vector<Held> refused;
  size_t freed = 0;
  for (const Held& held : blocks) {
    const Status status = device::FreeAsync(held.pointer, own_stream_.get());
    if (status.ok() || status.code() == StatusCode::kDeviceLost) {
      freed += held.block.bytes;
    } else {
      refused.push_back({held.pointer, held.block, {}});
    }
  }
  if (!blocks.empty()) WaitForOwnStream().IgnoreError();  // they serve every stream from here on
  Lock lock(mutex_);
  used_pool_bytes_ -= freed;
  for (Held& held : refused) Hold(std::move(held));
  Update();  // the caller's wait may have made the driver give memory back
}

Status PoolAllocator::WaitForOwnStream() {
  // By asking: a synchronisation would make the driver give back what the pool should keep. The stream holds nothing
  // but allocations and frees, so this takes no time.
  for (;;) {
    Status status = device::StreamQuery(own_stream_.get());
    if (status.code() != StatusCode::kNotReady) return status;
    std::this_thread::yield();
  }
}

Status PoolAllocator::TrimTo(size_t bytes) {
  Lock lock(mutex_);
  CUDAEP_RETURN_IF_ERROR(device::MemoryPoolTrim(pool_.get(), bytes));
  Update();
  return Status::Ok();
}

AllocatorStats PoolAllocator::Stats() const {
  Lock lock(mutex_);
  Update();
  AllocatorStats stats = stats_;
  stats.limit_bytes = static_cast<int64_t>(config_.max_bytes);
  return stats;
}

}  // namespace cudaep::memory
