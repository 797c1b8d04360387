// What the arena does when no free chunk serves a request, and how it gives memory back.
#include <algorithm>
#include <bit>

#include "core/checked_math.h"
#include "device/device_info.h"
#include "memory/arena/arena.h"
#include "memory/relaxed_capture.h"

namespace cudaep::memory {
namespace {

// Small regions are not rounded up to it.
constexpr size_t kSmallRegionBytes = size_t{1} << 20;
// Under a smaller limit too much would be lost to whole steps.
constexpr size_t kLeastLimitForSteps = size_t{32} << 20;
// What may be reserved beyond the most that was in use at once, beside the slack.
constexpr size_t kSparePercent = 25;
// Addresses are reserved for so many times the device's memory: what is unmapped leaves gaps of all sizes behind.
constexpr size_t kAddressFactor = 4;
// Once addresses take this many times the memory behind them, gaps are filled rather than the end moved on.
constexpr size_t kMostSpread = 2;

}  // namespace

// ---- What is done -----------------------------------------------------------------------------------------------

// Chunks that nothing uses any more leave their quarantine.
void Arena::FreePast() {
  const auto past = std::partition(quarantine_.begin(), quarantine_.end(),
                                   [&](const Quarantined& entry) { return !order_.IsPast(entry.points); });
  for (auto entry = past; entry != quarantine_.end(); ++entry) FreeForAll(entry->chunk);
  quarantine_.erase(past, quarantine_.end());
}

// Finds out what is done; chunks whose work is done become nobody's and merge.
void Arena::Collect() {
  order_.Poll();
  FreePast();
  for (const ChunkHeap::Region& region : heap_.regions()) {
    for (Chunk* chunk = region.first; chunk != nullptr; chunk = chunk->after) {
      if (chunk->free && chunk->owner != kNobody && IsDone(*chunk)) chunk = FreeForAll(chunk);
    }
  }
}

// So that it is found out later when the free chunks of each stream are done.
void Arena::SettleFree() {
  for (Slot slot = 1; slot < streams_.size(); ++slot) {
    if (!streams_[slot].bins.empty()) order_.Settle(slot);
  }
}

// Caches are emptied before memory is looked for elsewhere, and the quarantine is settled.
void Arena::TakeBack() {
  ForEachCache([&](StreamCache& cache) { PutBackList(cache.PopAll()); });
  for (const Quarantined& entry : quarantine_) order_.Settle(entry.points);
}

// Blocks, without the lock, until all that was freed is done; streams that capture keep theirs.
Status Arena::WaitForFree(Lock* lock) {
  device::DeviceGuard guard(source_.ordinal);
  CUDAEP_RETURN_IF_ERROR(guard.status());
  RelaxedCapture relaxed;
  TakeBack();
  SettleFree();
  const std::vector<StreamOrder::SharedEvent> pending = order_.Pending();
  lock->unlock();
  Status waited = StreamOrder::Wait(pending);
  lock->lock();
  TakeBack();
  Collect();
  return waited;
}

// ---- Search -----------------------------------------------------------------------------------------------------

Chunk* Arena::Search(Lock* lock, size_t bytes, Slot user, Status* why) {
  ++stats_.searches;
  device::DeviceGuard guard(source_.ordinal);
  *why = guard.status();
  if (!why->ok()) return nullptr;
  RelaxedCapture relaxed;
  Collect();
  if (Chunk* chunk = FindUsable(bytes, user)) return chunk;
  SettleFree();
  // Before streams lose their caches: they would search for the same again.
  if (Chunk* chunk = Grow(bytes, user, true, why)) return chunk;
  TakeBack();
  if (Chunk* chunk = FindUsable(bytes, user)) return chunk;
  if (Chunk* chunk = FindByWaiting(bytes, user)) return chunk;
  WaitForFree(lock).IgnoreError();
  if (Chunk* chunk = FindUsable(bytes, user)) return chunk;
  // Beyond the bound, or against the limit: as much as is needed goes back first of what lies idle in smaller pieces.
  const Chunk* const tail = UsableTail(user);
  const size_t missing = bytes - (tail != nullptr ? std::min(bytes, tail->bytes) : 0);
  if (missing != 0) ReturnIdle(lock, std::max(missing, BeyondBound(missing, bytes)), tail);
  return Grow(bytes, user, false, why);
}

// The best chunk of another stream, for which the user's stream is made to wait.
Chunk* Arena::FindByWaiting(size_t bytes, Slot user) {
  if (user == kNobody) return nullptr;
  Chunk* best = nullptr;
  for (Slot owner = 1; owner < streams_.size(); ++owner) {
    Chunk* const better = streams_[owner].bins.Find(bytes, UINT64_MAX, best);
    if (better != best && !IsCapturing(order_.stream(owner))) best = better;
  }
  if (best == nullptr || !order_.Order(user, best->owner)) return nullptr;
  ++stats_.stream_waits;
  return best;
}

// ---- Growth -----------------------------------------------------------------------------------------------------

// How far `more` memory for a request of `bytes` would take what is reserved out of proportion to what was needed at
// once.
size_t Arena::BeyondBound(size_t more, size_t bytes) const {
  const size_t reserved = region_bytes_ + more;
  const size_t needed = std::max(recent_peak_, InUse() + bytes);
  const size_t bound = needed + needed / 100 * kSparePercent + config_.slack_bytes;
  return reserved - std::min(reserved, bound);
}

size_t Arena::RegionBytes(size_t bytes) const {
  size_t wanted = bytes;
  if (config_.extend_strategy == ExtendStrategy::kNextPowerOfTwo) {
    const size_t first = shrunk_ ? config_.initial_growth_chunk_bytes : config_.initial_chunk_bytes;
    const size_t next = last_region_ == 0 ? first : std::bit_ceil(last_region_ + 1);
    const size_t most = std::min(next, config_.max_power_of_two_extend_bytes);
    // Doubling stays in proportion: no more than an eighth of what is in use beyond the request, or the slack.
    const size_t slack = config_.slack_bytes - std::min(config_.slack_bytes, region_bytes_);
    wanted = std::max(bytes, std::min(most, bytes + std::max(InUse() / 8, slack)));
  }
  wanted = AlignUp(wanted, wanted > kSmallRegionBytes ? kStepBytes : kAlignmentBytes);
  if (config_.max_bytes == 0) return wanted;
  const size_t left = config_.max_bytes - std::min(config_.max_bytes, static_cast<size_t>(stats_.bytes_reserved));
  return std::max(bytes, std::min(wanted, left / kAlignmentBytes * kAlignmentBytes));
}

// Whether there is one region that grows; found out at the first growth.
bool Arena::CanGrow() {
  if (can_grow_.has_value()) return *can_grow_;
  can_grow_ = false;
  const size_t budget = source_.budget != nullptr ? source_.budget->limit_bytes() : 0;
  for (size_t limit : {config_.max_bytes, budget}) {
    if (limit != 0 && limit < kLeastLimitForSteps) return false;
  }
  const Result<const device::DeviceInfo*> info = device::GetDeviceInfo(source_.ordinal);
  if (source_.kind != MemoryKind::kDevice || !info.ok()) return false;
  const size_t most = kAddressFactor * info.value()->total_bytes;
  can_grow_ = device::GrowableCreate(growable_.Receive(), source_.ordinal, most).ok();
  return *can_grow_;
}

// The free chunk at the end of mapped memory, if the user may have it and there is to be more behind it.
Chunk* Arena::UsableTail(Slot user) {
  if (!CanGrow() || heap_.regions().empty()) return nullptr;
  if (OffsetOf(heap_.regions().back().end()) > kMostSpread * region_bytes_) return nullptr;
  Chunk* const last = heap_.regions().back().last;
  // What a graph may know stays as it is.
  return last->free && !last->captured && last->stamp <= order_.Usable(user, last->owner) ? last : nullptr;
}

size_t Arena::OffsetOf(const char* data) const {
  return static_cast<size_t>(data - static_cast<const char*>(device::GrowableBase(growable_.get())));
}

// The lowest addresses where `bytes` can be mapped: a gap, or the end.
size_t Arena::PlaceFor(size_t bytes) const {
  size_t end = 0;
  for (const ChunkHeap::Region& region : heap_.regions()) {
    if (OffsetOf(region.data) - end >= bytes) break;
    end = OffsetOf(region.end());
  }
  return end;
}

// `bytes` more, a multiple of the step; in no list.
Status Arena::Map(size_t at, size_t bytes, Chunk** chunk) {
  CUDAEP_RETURN_IF_ERROR(source_.Charge(bytes));
  const Status status = device::GrowableMap(growable_.get(), at, bytes);
  if (!status.ok()) {
    source_.Release(bytes);
    return status;
  }
  *chunk = heap_.AddAdjoining(static_cast<char*>(device::GrowableBase(growable_.get())) + at, bytes);
  return status;
}

Status Arena::AcquireRegion(size_t bytes, Chunk** chunk) {
  void* data = nullptr;
  CUDAEP_RETURN_IF_ERROR(source_.Acquire(&data, bytes));
  const auto begin = reinterpret_cast<uintptr_t>(data);
  lowest_ = std::min(lowest_.load(), begin);
  highest_ = std::max(highest_.load(), begin + bytes);
  *chunk = heap_.AddRegion(data, bytes);
  return Status::Ok();
}

// More memory: a chunk of at least `bytes` in no list. Null: the status says why, or the bound forbids it.
Chunk* Arena::Grow(size_t bytes, Slot user, bool within_bound, Status* why) {
  Chunk* const tail = UsableTail(user);
  if (tail != nullptr && tail->bytes >= bytes) return tail;  // a search of its bin ended before it
  const size_t missing = bytes - (tail != nullptr ? tail->bytes : 0);
  const size_t least = AlignUp(missing, CanGrow() ? kStepBytes : kAlignmentBytes);
  size_t wanted = within_bound ? std::max(RegionBytes(missing), least) : least;
  if (CanGrow()) wanted = AlignUp(wanted, kStepBytes);
  if (within_bound && BeyondBound(wanted, bytes) != 0) wanted = least;
  if (within_bound && BeyondBound(wanted, bytes) != 0) return nullptr;
  if (IsOverLimit(wanted)) wanted = least;
  Chunk* chunk = nullptr;
  const auto acquire = [&]() -> Status {
    if (IsOverLimit(wanted)) return OutOfMemory("the arena's limit is reached");
    if (!CanGrow()) return AcquireRegion(wanted, &chunk);
    return Map(tail != nullptr ? OffsetOf(heap_.regions().back().end()) : PlaceFor(wanted), wanted, &chunk);
  };
  *why = acquire();
  if (why->code() == StatusCode::kOutOfMemory && wanted > least) {
    wanted = least;
    *why = acquire();
  }
  if (!why->ok()) return nullptr;
  region_bytes_ += wanted;
  last_region_ = wanted;
  stats_.CountTaken(wanted);
  if (tail == nullptr) return MergeNeighbours(chunk);
  // The request takes all of the tail; what it leaves over is new, and nobody's.
  BinsOf(*tail).Remove(tail);
  tail->owner = kNobody;
  tail->stamp = 0;
  heap_.MergeAfter(tail);
  return tail;
}

// ---- Giving back ------------------------------------------------------------------------------------------------

// Unmaps whole steps of nobody's free memory, the highest first, until `most` bytes are given back; not those of
// `kept`. The addresses are mapped again when something fits there.
void Arena::UnmapIdle(size_t most, const Chunk* kept) {
  std::vector<Chunk*> idle;
  for (const ChunkHeap::Region& region : heap_.regions()) {
    for (Chunk* chunk = region.first; chunk != nullptr; chunk = chunk->after) {
      if (chunk->free && chunk->owner == kNobody && chunk != kept) idle.push_back(chunk);
    }
  }
  size_t given = 0;
  for (auto next = idle.rbegin(); next != idle.rend() && given < most; ++next) {
    Chunk* chunk = *next;
    const size_t begin = OffsetOf(chunk->data), end = (begin + chunk->bytes) / kStepBytes * kStepBytes;
    size_t first = AlignUp(begin, kStepBytes);
    if (first >= end) continue;
    if (end - first > most - given) first = end - AlignUp(most - given, kStepBytes);
    if (!device::GrowableUnmap(growable_.get(), first, end - first).ok()) break;
    given += end - first;
    BinsOf(*chunk).Remove(chunk);
    if (begin + chunk->bytes > end) BinsOf(*chunk).Insert(heap_.Split(chunk, end - begin));
    if (first > begin) {
      Chunk* const below = std::exchange(chunk, heap_.Split(chunk, first - begin));
      BinsOf(*below).Insert(below);
    }
    heap_.CutOut(chunk);
  }
  if (given == 0) return;
  region_bytes_ -= given;
  stats_.CountGiven(given);
  source_.Release(given);
}

// What is nobody's goes back to the driver: of one region `most` bytes but for the chunk `kept`, of several all that
// are one chunk.
void Arena::ReturnIdle(Lock* lock, size_t most, const Chunk* kept) {
  if (CanGrow()) return UnmapIdle(most, kept);
  std::vector<ChunkHeap::Region> idle;
  for (const ChunkHeap::Region& region : heap_.regions()) {
    const Chunk& chunk = *region.first;
    if (chunk.free && chunk.owner == kNobody && chunk.bytes == region.bytes) idle.push_back(region);
  }
  for (const ChunkHeap::Region& region : idle) {
    BinsOf(*region.first).Remove(region.first);
    heap_.CutOut(region.first);
    region_bytes_ -= region.bytes;
    stats_.CountGiven(region.bytes);
  }
  lock->unlock();  // the driver waits for the device
  for (const ChunkHeap::Region& region : idle) source_.Return(region.data, region.bytes).IgnoreError();
  lock->lock();
}

Status Arena::Shrink() {
  Lock lock(mutex_);
  ++stats_.shrinks;
  CUDAEP_RETURN_IF_ERROR(WaitForFree(&lock));
  recent_peak_ = InUse();
  last_region_ = 0;
  shrunk_ = true;
  ReturnIdle(&lock, SIZE_MAX, nullptr);
  return Status::Ok();
}

}  // namespace cudaep::memory
