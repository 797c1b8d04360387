// What the arena does when no free chunk serves a request.
#include <algorithm>
#include <bit>

#include "core/checked_math.h"
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

// Finds out what is done: chunks in quarantine and the marks of all streams.
void Arena::Poll() {
  progress_.Poll();
  for (StreamState& state : streams_) {
    while (!state.marks.empty() && progress_.IsPast(state.marks.front().point)) {
      state.done = std::max(state.done, state.marks.front().stamp);
      state.marks.pop_front();
    }
  }
  FreePast();
}

// Chunks that nothing uses any more leave their quarantine.
void Arena::FreePast() {
  std::vector<Chunk*> past;
  std::erase_if(quarantine_, [&](const Quarantined& entry) {
    const bool is_past = progress_.IsPast(entry.points);
    if (is_past) past.push_back(entry.chunk);
    return is_past;
  });
  for (Chunk* chunk : past) FreeForAll(chunk);
}

// Every stream with free chunks gets a mark, so that a later Poll finds them done.
void Arena::MarkPending() {
  for (StreamState& state : streams_) {
    if (!state.used || state.bins.empty()) continue;
    const uint64_t freed = state.cache->freed();
    if (state.done == freed || (!state.marks.empty() && state.marks.back().stamp == freed)) continue;
    state.marks.push_back({freed, progress_.Mark(state.stream)});
  }
}

// For streams that run on without anybody waiting for them: what is done by now is found out as they go.
void Arena::MarkAndSweep(StreamState* state) {
  device::DeviceGuard guard(source_.ordinal);
  if (!guard.status().ok()) return;
  RelaxedCapture relaxed;
  state->unmarked = 0;
  const uint64_t done = state->done;
  Poll();
  const uint64_t freed = state->cache->freed();
  state->marks.push_back({freed, progress_.Mark(state->stream)});
  if (state->done != done) Sweep();
}

// Chunks whose work is done become nobody's and merge.
void Arena::Sweep() {
  for (const ChunkHeap::Region& region : heap_.regions()) {
    for (Chunk* chunk = region.first; chunk != nullptr; chunk = chunk->after) {
      if (chunk->free && chunk->owner != kNobody && IsDone(*chunk)) chunk = HandOver(chunk, kNobody, 0);
    }
  }
}

// Makes the user's stream wait for all that is queued on the owner's.
bool Arena::OrderAfter(ChunkOwner user, ChunkOwner owner) {
  const uint64_t freed = streams_[owner].cache->freed();  // first: frees go on meanwhile
  if (!StreamProgress::Order(streams_[user].stream, streams_[owner].stream).ok()) return false;
  std::vector<uint64_t>& waited = streams_[user].waited;
  if (waited.size() < streams_.size()) waited.resize(streams_.size());
  waited[owner] = freed;
  ++stats_.stream_waits;
  return true;
}

// A chunk of another stream, for which the user's stream waits; or all free memory of all streams, merged.
Chunk* Arena::FindByWaiting(size_t bytes, ChunkOwner user) {
  if (user == kNobody) return nullptr;
  const auto can_wait_for = [&](ChunkOwner owner) {
    const StreamState& state = streams_[owner];
    return owner != user && state.used && !state.bins.empty() && !IsCapturing(state.stream);
  };
  Chunk* best = nullptr;
  for (ChunkOwner owner = 1; owner < streams_.size(); ++owner) {
    Chunk* const better = streams_[owner].bins.FindBetter(bytes, UINT64_MAX, best);
    if (better != best && can_wait_for(owner)) best = better;
  }
  if (best != nullptr && OrderAfter(user, best->owner)) return best;
  size_t free_bytes = 0;
  for (const StreamState& state : streams_) free_bytes += state.bins.bytes();
  if (free_bytes < bytes) return nullptr;
  for (ChunkOwner owner = 1; owner < streams_.size(); ++owner) {
    if (can_wait_for(owner) && UsableBy(streams_[user], owner) < streams_[owner].cache->freed())
      OrderAfter(user, owner);
  }
  // All that may be used now becomes the user's, so that it merges.
  StreamState& own = streams_[user];
  const uint64_t stamp = own.cache->CountFree();
  for (const ChunkHeap::Region& region : heap_.regions()) {
    for (Chunk* chunk = region.first; chunk != nullptr; chunk = chunk->after) {
      if (!chunk->free || chunk->captured || chunk->stamp > UsableBy(streams_[user], chunk->owner)) continue;
      chunk = HandOver(chunk, user, stamp);
    }
  }
  return own.bins.Find(bytes);
}

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
    const size_t next = last_region_ == 0 || shrunk_ ? first : std::bit_ceil(last_region_ + 1);
    const size_t most = std::min(next, config_.max_power_of_two_extend_bytes);
    // Doubling stays in proportion: no more than an eighth of what is in use beyond the request, or the slack.
    const size_t slack = config_.slack_bytes - std::min(config_.slack_bytes, region_bytes_);
    const size_t headroom = std::max(InUse() / 8, slack);
    wanted = std::max(bytes, std::min(most, bytes + headroom));
  }
  wanted = AlignUp(wanted, wanted > kSmallRegionBytes ? kStepBytes : kAlignmentBytes);
  if (config_.max_bytes == 0) return wanted;
  const size_t reserved = static_cast<size_t>(stats_.bytes_reserved);
  const size_t left = config_.max_bytes > reserved ? config_.max_bytes - reserved : 0;
  return std::max(bytes, std::min(wanted, left / kAlignmentBytes * kAlignmentBytes));
}

// Whether there is one region that grows; found out at the first growth.
bool Arena::CanGrow() {
  if (growable_state_ == Growable::kUntried) {
    growable_state_ = Growable::kMissing;
    const size_t budget = source_.budget != nullptr ? source_.budget->limit_bytes() : 0;
    for (size_t limit : {config_.max_bytes, budget}) {
      if (limit != 0 && limit < kLeastLimitForSteps) return false;
    }
    const Result<const device::DeviceInfo*> info = device::GetDeviceInfo(source_.ordinal);
    if (source_.kind != MemoryKind::kDevice || !info.ok()) return false;
    const size_t most = kAddressFactor * info.value()->total_bytes;
    if (device::GrowableCreate(growable_.Receive(), source_.ordinal, most).ok()) growable_state_ = Growable::kAvailable;
  }
  return growable_state_ == Growable::kAvailable;
}

// The free chunk at the end of mapped memory, if the user may have it and there is to be more behind it.
Chunk* Arena::UsableTail(ChunkOwner user) {
  if (!CanGrow() || heap_.regions().empty()) return nullptr;
  if (OffsetOf(heap_.regions().back().end()) > kMostSpread * region_bytes_) return nullptr;
  Chunk* const last = heap_.regions().back().last;
  // What a graph may know stays as it is.
  const bool usable = last->free && !last->captured && last->stamp <= UsableBy(streams_[user], last->owner);
  return usable ? last : nullptr;
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

// `bytes` more, a multiple of the step.
Status Arena::Map(size_t at, size_t bytes, Chunk** chunk) {
  CUDAEP_RETURN_IF_ERROR(source_.Charge(bytes));
  const Status status = device::GrowableMap(growable_.get(), at, bytes);
  if (!status.ok()) {
    source_.Release(bytes);
    return status;
  }
  *chunk = heap_.AddAdjoining(static_cast<char*>(device::GrowableBase(growable_.get())) + at, bytes);
  return Status::Ok();
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
Chunk* Arena::Grow(size_t bytes, ChunkOwner user, bool within_bound, Status* why) {
  Chunk* const tail = UsableTail(user);
  if (tail != nullptr && tail->bytes >= bytes) return tail;  // a search of its bin ended before it
  const size_t missing = bytes - (tail != nullptr ? tail->bytes : 0);
  const size_t least = AlignUp(missing, CanGrow() ? kStepBytes : kAlignmentBytes);
  const size_t reserved = static_cast<size_t>(stats_.bytes_reserved);
  size_t wanted = within_bound ? std::max(RegionBytes(missing), least) : least;
  if (CanGrow()) wanted = AlignUp(wanted, kStepBytes);
  if (within_bound && BeyondBound(wanted, bytes) != 0) wanted = least;
  if (within_bound && BeyondBound(wanted, bytes) != 0) return nullptr;
  if (config_.max_bytes != 0 && reserved + wanted > config_.max_bytes) wanted = least;
  if (config_.max_bytes != 0 && reserved + wanted > config_.max_bytes) {
    *why = OutOfMemory("the arena's limit is reached");
    return nullptr;
  }
  Chunk* chunk = nullptr;
  const auto acquire = [&] {
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
  shrunk_ = false;
  stats_.CountTaken(wanted);
  if (tail == nullptr) return MergeNeighbours(chunk);
  // The request takes all of the tail; what it leaves over is new, and nobody's.
  BinsOf(*tail).Remove(tail);
  tail->owner = kNobody;
  tail->stamp = 0;
  heap_.MergeAfter(tail);
  return tail;
}

Chunk* Arena::SlowFind(Lock* lock, size_t bytes, ChunkOwner user, Status* why) {
  ++stats_.searches;
  device::DeviceGuard guard(source_.ordinal);
  if (!guard.status().ok()) {
    *why = guard.status();
    return nullptr;
  }
  RelaxedCapture relaxed;
  Poll();
  Sweep();
  if (Chunk* chunk = FindUsable(bytes, user)) return chunk;
  MarkPending();
  // Before streams lose their caches: they would search for the same again.
  if (Chunk* chunk = Grow(bytes, user, true, why)) return chunk;
  EmptyCaches();
  progress_.SettleAll();
  if (Chunk* chunk = FindUsable(bytes, user)) return chunk;
  if (Chunk* chunk = FindByWaiting(bytes, user)) return chunk;
  return GrowAtLast(lock, bytes, user, why);
}

// Beyond the bound, or against the limit: as much as is needed goes back first of what lies idle in smaller pieces.
Chunk* Arena::GrowAtLast(Lock* lock, size_t bytes, ChunkOwner user, Status* why) {
  WaitForEverything(lock);
  if (Chunk* chunk = FindUsable(bytes, user)) return chunk;
  const Chunk* const tail = UsableTail(user);
  const size_t missing = bytes - (tail != nullptr ? std::min(bytes, tail->bytes) : 0);
  if (missing != 0) ReturnIdle(lock, std::max(missing, BeyondBound(missing, bytes)), tail);
  return Grow(bytes, user, false, why);
}

}  // namespace cudaep::memory
