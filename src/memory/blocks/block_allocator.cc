#include "memory/blocks/block_allocator.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/checked_math.h"
#include "core/log.h"
#include "memory/allocation_label.h"
#include "memory/capture_gate.h"
#include "memory/out_of_memory.h"
#include "memory/relaxed_capture.h"
#include "memory/user_table.h"

namespace cudaep::memory {

Result<void*> BlockAllocator::Request(size_t bytes, const device::Stream* stream, bool reserved) {
  if (bytes == 0) return nullptr;
  Block block{.bytes = AlignUp(std::min(bytes, SIZE_MAX / 2), kAlignmentBytes), .reserved = reserved};
  Result<void*> pointer = bytes <= SIZE_MAX / 2 ? Serve(&block, stream) : OutOfMemory("no memory can be as large");
  Lock lock(mutex_);
  if (pointer.ok()) {
    block.label = CurrentLabel();
    stats_.CountUse(block.bytes);
    ++(reserved ? stats_.reserves : stats_.allocations);
    live_[*pointer] = block;
    return pointer;
  }
  ++stats_.failures;
  if (pointer.status().code() != StatusCode::kOutOfMemory) return pointer;
  return OutOfMemoryError(bytes, source_, pointer.status().message(), stats_, UsersLocked(kUsersInError));
}

Result<void*> BlockAllocator::TakeDirectly(Block* block) {
  block->direct = true;
  void* pointer = nullptr;
  CUDAEP_RETURN_IF_ERROR(source_.Acquire(&pointer, block->bytes));
  stats_.CountTaken(block->bytes);
  return pointer;
}

Result<void*> BlockAllocator::FromHeld(Block* request, const device::Stream* stream, const char* source) {
  std::vector<Held> past;
  {
    Lock lock(mutex_);
    if (stream != nullptr) {
      request->slot = order_.Add(*stream);
      request->life = order_.life(request->slot);
      request->captured = IsCapturing(*stream);
    }
    if (void* const pointer = TakeHeld(request)) return pointer;
    if (request->captured) {
      return FailedPrecondition("allocation of ", request->bytes,
                                " bytes on a capturing stream that holds no freed block as large: ", source,
                                " cannot be asked during a capture; use the arena");
    }
    past = TakePast();
  }
  if (!past.empty()) GiveBack(past);
  return nullptr;
}

// Its own stream need not be asked how far it is.
void* BlockAllocator::TakeHeld(Block* request) {
  const size_t most = request->captured ? SIZE_MAX : request->bytes + request->bytes / 8;
  for (const bool polls : {false, true}) {
    if (held_.empty() || (polls && request->captured)) return nullptr;
    if (polls) order_.Poll();
    auto best = held_.end();
    for (auto held = held_.begin(); held != held_.end(); ++held) {
      const size_t bytes = held->block.bytes;
      if (bytes < request->bytes || bytes > most || (best != held_.end() && bytes >= best->block.bytes)) continue;
      const bool own = request->life != 0 && held->block.life == request->life;
      if (own || (!request->captured && IsPast(*held))) best = held;
    }
    if (best == held_.end()) continue;
    std::swap(*best, held_.back());
    const Held taken = std::move(held_.back());
    held_.pop_back();
    request->bytes = taken.block.bytes;
    request->captured = request->captured || (taken.block.captured && taken.block.life == request->life);
    return taken.pointer;
  }
  return nullptr;
}

bool BlockAllocator::IsPast(const Held& held) const {
  return order_.IsPast(held.points) && !(held.block.captured && held.block.life == order_.life(held.block.slot));
}

std::vector<BlockAllocator::Held> BlockAllocator::TakePast() {
  const auto first = std::partition(held_.begin(), held_.end(), [&](const Held& held) { return !IsPast(held); });
  std::vector<Held> past(std::make_move_iterator(first), std::make_move_iterator(held_.end()));
  held_.erase(first, held_.end());
  return past;
}

void BlockAllocator::Free(void* pointer) {
  if (pointer == nullptr) return;
  device::DeviceGuard guard(source_.ordinal);
  RelaxedCapture relaxed;
  std::vector<Held> past;
  {
    Lock lock(mutex_);
    const auto found = live_.find(pointer);
    if (found == live_.end()) {
      return Log(LogLevel::kError, "free of ", pointer, ", which is not live memory of this allocator; ignored");
    }
    Held held{pointer, found->second, {}};
    live_.erase(found);
    Block& block = held.block;
    stats_.CountFree(block.bytes);
    bool capturing = false;
    if (block.life != 0 && block.life == order_.life(block.slot)) {
      const device::Stream stream = order_.stream(block.slot);
      capturing = IsCapturing(stream);
      block.captured = block.captured || capturing;
      const After after = block.captured ? After::kNothing : Freed(pointer, block, stream);
      const StreamOrder::Point point = order_.Next(block.slot);
      if (after == After::kGone) return;
      if (after == After::kStream) held.points.push_back(point);
    } else if (block.life == 0 && !block.direct) {
      held.points = order_.NextOfAll();
    }
    order_.Settle(held.points);
    held_.push_back(std::move(held));
    if (capturing) return;
    order_.Poll();
    past = TakePast();
  }
  if (!past.empty()) GiveBack(past);
}

void BlockAllocator::GiveBack(std::span<Held> blocks) {
  for (const Held& held : blocks) {
    {
      Lock lock(mutex_);
      stats_.CountGiven(held.block.bytes);
    }
    source_.Return(held.pointer, held.block.bytes).IgnoreError();
  }
}

void BlockAllocator::AddStream(device::Stream stream) {
  Lock lock(mutex_);
  order_.Add(stream);
}

void BlockAllocator::ReleaseStream(device::Stream stream) {
  device::DeviceGuard guard(source_.ordinal);
  RelaxedCapture relaxed;
  Lock lock(mutex_);
  order_.Release(stream);
  std::vector<Held> past = TakePast();
  lock.unlock();
  GiveBack(past);
}

StreamMark BlockAllocator::Mark(device::Stream stream) {
  Lock lock(mutex_);
  return order_.Mark(stream);
}

void BlockAllocator::Reached(const StreamMark& mark) {
  device::DeviceGuard guard(source_.ordinal);
  RelaxedCapture relaxed;
  Lock lock(mutex_);
  if (order_.Reached(mark) == StreamOrder::kNobody) return;
  std::vector<Held> past = TakePast();
  lock.unlock();
  GiveBack(past);
}

Result<bool> BlockAllocator::WaitForFreed() {
  Lock lock(mutex_);
  order_.SettleAll();
  const std::vector<StreamOrder::SharedEvent> pending = order_.Pending();
  lock.unlock();
  CUDAEP_RETURN_IF_ERROR(StreamOrder::Wait(pending));
  lock.lock();
  order_.Poll();
  std::vector<Held> past = TakePast();
  lock.unlock();
  const bool any = !past.empty();
  GiveBack(past);
  return any;
}

Status BlockAllocator::Shrink() {
  device::DeviceGuard guard(source_.ordinal);
  CUDAEP_RETURN_IF_ERROR(guard.status());
  RelaxedCapture relaxed;
  Lock lock(mutex_);
  ++stats_.shrinks;
  lock.unlock();
  CUDAEP_RETURN_IF_ERROR(WaitForFreed().status());
  return Trim();
}

void BlockAllocator::End() {
  device::DeviceGuard guard(source_.ordinal);
  RelaxedCapture relaxed;
  WaitForFreed().status().IgnoreError();
  std::vector<Held> rest = std::exchange(held_, {});
  for (const auto& [pointer, block] : live_) rest.push_back({pointer, block, {}});
  // Nobody says what uses these: memory that was never freed, and what a capture has recorded.
  if (!rest.empty()) SynchronizeDevice().IgnoreError();
  GiveBack(rest);
}

AllocatorStats BlockAllocator::Stats() const {
  Lock lock(mutex_);
  return stats_;
}

std::vector<MemoryUser> BlockAllocator::LargestUsers(size_t most) const {
  Lock lock(mutex_);
  return UsersLocked(most);
}

std::vector<MemoryUser> BlockAllocator::UsersLocked(size_t most) const {
  UserTable users;
  for (const auto& [pointer, block] : live_) users.Add(block.label, block.bytes);
  return users.Largest(most);
}

}  // namespace cudaep::memory
