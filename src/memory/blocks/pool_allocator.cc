#include "memory/blocks/pool_allocator.h"

#include <thread>
#include <utility>

#include "memory/capture_gate.h"
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
  device::DeviceGuard guard(source_.ordinal);
  RelaxedCapture relaxed;
  std::vector<HeldBlock> rest = held_.TakeAll();
  live_.ForEach([&](void* pointer, const Block& block) { rest.push_back({pointer, block, {}}); });
  // Nobody says what uses these: memory that was never freed, and what a capture has recorded.
  if (!rest.empty()) SynchronizeDevice().IgnoreError();
  for (const HeldBlock& held : rest) {
    if (held.block.owner == BlockOwner::kReserved) {
      source_.Return(held.pointer, held.block.bytes).IgnoreError();
    } else {
      device::FreeAsync(held.pointer, own_stream_.get()).IgnoreError();
    }
  }
  if (own_stream_) WaitForOwnStream().IgnoreError();
  source_.Release(pool_bytes_);
}

Result<void*> PoolAllocator::Serve(Block block) {
  device::DeviceGuard guard(source_.ordinal);
  CUDAEP_RETURN_IF_ERROR(guard.status());
  RelaxedCapture relaxed;
  const size_t bytes = block.bytes;
  Lock lock(mutex_);
  void* pointer = nullptr;
  if (block.owner == BlockOwner::kReserved) {
    CUDAEP_ASSIGN_OR_RETURN(pointer, TakeDirectly(lock, bytes));
  } else {
    CUDAEP_ASSIGN_OR_RETURN(pointer, FromHeld(bytes, &block));
    if (pointer == nullptr) {
      const bool tagged = block.owner == BlockOwner::kStream;
      CUDAEP_ASSIGN_OR_RETURN(pointer, FromPool(lock, bytes, tagged ? block.stream : own_stream_.get()));
      used_pool_bytes_ += bytes;
    }
  }
  live_.Insert(pointer, block);
  return pointer;
}

Result<void*> PoolAllocator::FromHeld(size_t bytes, Block* block) {
  if (block->owner == BlockOwner::kStream) {
    progress_.Add(block->stream);
    block->captured = IsCapturing(block->stream);
  }
  const std::optional<HeldBlock> held = held_.TakeFor(bytes, block, &progress_);
  if (held) return held->pointer;
  if (!block->captured) {
    GiveToPool(held_.TakeAllPast(progress_));
    return nullptr;
  }
  return FailedPrecondition("allocation of ", bytes,
                            " bytes on a capturing stream that holds no freed block as large: ",
                            "the driver's pool cannot be asked during a capture; use the arena");
}

Result<void*> PoolAllocator::FromPool(Lock& lock, size_t bytes, device::Stream stream) {
  const Result<void*> pointer = TryPool(bytes, stream);
  if (pointer.status().code() != StatusCode::kOutOfMemory) return pointer;
  CUDAEP_RETURN_IF_ERROR(EmptyPool(lock, 0));
  return TryPool(bytes, stream);
}

Result<void*> PoolAllocator::TryPool(size_t bytes, device::Stream stream) {
  const size_t before = pool_bytes_;
  // Where the pool is certain to grow, the refusal costs nothing.
  if (used_pool_bytes_ + bytes > before && !HasRoom(used_pool_bytes_ + bytes - before)) {
    return OutOfMemory("the memory limit is reached");
  }
  void* pointer = nullptr;
  CUDAEP_RETURN_IF_ERROR(device::MallocFromPoolAsync(&pointer, bytes, pool_.get(), stream));
  Status status = stream == own_stream_.get() ? WaitForOwnStream() : Status::Ok();
  if (status.ok() && Update()) return pointer;
  // Undone with a wait: the pool can give back only what is freed.
  device::FreeAsync(pointer, stream).IgnoreError();
  CUDAEP_RETURN_IF_ERROR(status);
  CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(stream));
  CUDAEP_RETURN_IF_ERROR(device::MemoryPoolTrim(pool_.get(), before));
  Update();
  return OutOfMemory("the memory limit is reached: the driver's pool grows in steps");
}

Result<void*> PoolAllocator::TakeDirectly(Lock& lock, size_t bytes) {
  const auto take = [&]() -> Result<void*> {
    if (!HasRoom(bytes)) return OutOfMemory("the memory limit is reached");
    direct_bytes_ += bytes;
    lock.unlock();
    void* pointer = nullptr;
    Status status = source_.Acquire(&pointer, bytes);
    lock.lock();
    if (!status.ok()) {
      direct_bytes_ -= bytes;
      return status;
    }
    live_.stats.CountTaken(bytes);
    return pointer;
  };
  const Result<void*> pointer = take();
  if (pointer.status().code() != StatusCode::kOutOfMemory) return pointer;
  CUDAEP_RETURN_IF_ERROR(EmptyPool(lock, 0));
  return take();
}

bool PoolAllocator::HasRoom(size_t more) const {
  if (config_.max_bytes != 0) {
    const size_t taken = pool_bytes_ + direct_bytes_;
    if (taken > config_.max_bytes || more > config_.max_bytes - taken) return false;
  }
  return source_.budget == nullptr || more <= source_.budget->available_bytes();
}

bool PoolAllocator::Update() const {
  device::MemoryPoolStats stats;
  if (!device::MemoryPoolGetStats(pool_.get(), &stats).ok()) return true;  // nothing is known to be wrong
  const size_t now = stats.reserved_bytes, before = std::exchange(pool_bytes_, now);
  bool within = config_.max_bytes == 0 || now <= before || now + direct_bytes_ <= config_.max_bytes;
  Budget* budget = source_.budget.get();
  if (now > before) {
    live_.stats.CountTaken(now - before);
    if (budget != nullptr && !budget->TryCharge(BudgetKind::kArena, now - before)) {
      budget->ChargeMeasured(BudgetKind::kArena, now - before);
      within = false;
    }
  } else if (now < before) {
    live_.stats.CountGiven(before - now);
    source_.Release(before - now);
  }
  return within;
}

void PoolAllocator::Free(void* pointer) {
  if (pointer == nullptr) return;
  device::DeviceGuard guard(source_.ordinal);
  RelaxedCapture relaxed;
  Lock lock(mutex_);
  const std::optional<Block> removed = live_.Remove(pointer);
  if (!removed) return;
  HeldBlock held{pointer, *removed, {}};
  switch (held.block.owner) {
    case BlockOwner::kStream:
      held.block.captured = held.block.captured || IsCapturing(held.block.stream);
      if (held.block.captured) {
        held_.Add(std::move(held));
      } else {
        const device::Stream stream = held.block.stream;
        freed_on_[stream] = ++frees_;
        FreeOn(stream, std::move(held));
      }
      break;
    case BlockOwner::kNobody:
      GiveToPool({std::move(held)});
      break;
    case BlockOwner::kAnyStream:
      held.points = progress_.MarkAll();
      held_.Add(std::move(held));
      break;
    case BlockOwner::kReserved:
      direct_bytes_ -= held.block.bytes;
      live_.stats.CountGiven(held.block.bytes);
      lock.unlock();
      source_.Return(pointer, held.block.bytes).IgnoreError();
      break;
  }
}

void PoolAllocator::FreeOn(device::Stream stream, HeldBlock held) {
  const Status status = device::FreeAsync(held.pointer, stream);
  if (status.ok() || status.code() == StatusCode::kDeviceLost) {
    used_pool_bytes_ -= held.block.bytes;
    return;
  }
  // Tried again on our stream, once what uses it is done.
  held.points.clear();
  if (stream != own_stream_.get()) held.points.push_back(progress_.Mark(stream));
  held_.Add(std::move(held));
}

void PoolAllocator::GiveToPool(std::vector<HeldBlock> blocks) {
  if (blocks.empty()) return;
  for (HeldBlock& held : blocks) FreeOn(own_stream_.get(), std::move(held));
  WaitForOwnStream().IgnoreError();  // it serves every stream from here on
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

Status PoolAllocator::EmptyPool(Lock& lock, size_t bytes_to_keep) {
  const std::unordered_map<device::Stream, uint64_t> freed_on = std::exchange(freed_on_, {});
  for (const auto& [stream, last] : freed_on) {
    if (IsCapturing(stream)) {
      freed_on_.emplace(stream, last);
    } else {
      progress_.Mark(stream);
    }
  }
  const auto events = progress_.Pending();
  lock.unlock();
  Status waited = StreamProgress::Wait(events);
  lock.lock();
  if (!waited.ok()) freed_on_.insert(freed_on.begin(), freed_on.end());
  CUDAEP_RETURN_IF_ERROR(waited);
  progress_.Poll();
  GiveToPool(held_.TakeAllPast(progress_));
  CUDAEP_RETURN_IF_ERROR(WaitForOwnStream());
  CUDAEP_RETURN_IF_ERROR(device::MemoryPoolTrim(pool_.get(), bytes_to_keep));
  Update();
  return Status::Ok();
}

void PoolAllocator::AddStream(device::Stream stream) {
  std::lock_guard lock(mutex_);
  progress_.Add(stream);
}

void PoolAllocator::ReleaseStream(device::Stream stream) {
  device::DeviceGuard guard(source_.ordinal);
  RelaxedCapture relaxed;
  std::lock_guard lock(mutex_);
  live_.ReleaseStream(stream);
  held_.ReleaseStream(stream);
  progress_.Release(stream);
  freed_on_.erase(stream);
  GiveToPool(held_.TakeAllPast(progress_));
}

StreamMark PoolAllocator::Mark(device::Stream stream) {
  std::lock_guard lock(mutex_);
  StreamMark mark = progress_.Now(stream);
  mark.frees = frees_;
  return mark;
}

void PoolAllocator::Reached(const StreamMark& mark) {
  device::DeviceGuard guard(source_.ordinal);
  RelaxedCapture relaxed;
  std::lock_guard lock(mutex_);
  if (!progress_.Reached(mark)) return;
  if (const auto found = freed_on_.find(mark.stream); found != freed_on_.end() && found->second <= mark.frees) {
    freed_on_.erase(found);
  }
  GiveToPool(held_.TakeAllPast(progress_));
  Update();  // the caller's wait may have made the driver give memory back
}

Status PoolAllocator::Shrink() {
  device::DeviceGuard guard(source_.ordinal);
  CUDAEP_RETURN_IF_ERROR(guard.status());
  RelaxedCapture relaxed;
  Lock lock(mutex_);
  ++live_.stats.shrinks;
  return EmptyPool(lock, config_.pool_bytes_to_keep_on_shrink);
}

AllocatorStats PoolAllocator::Stats() const {
  std::lock_guard lock(mutex_);
  Update();
  AllocatorStats stats = live_.stats;
  stats.limit_bytes = static_cast<int64_t>(config_.max_bytes);
  return stats;
}

}  // namespace cudaep::memory
