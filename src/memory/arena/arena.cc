#include "memory/arena/arena.h"

#include <algorithm>

#include "core/checked_math.h"
#include "core/log.h"
#include "memory/allocation_label.h"
#include "memory/out_of_memory.h"
#include "memory/relaxed_capture.h"
#include "memory/user_table.h"

namespace cudaep::memory {
namespace {

constexpr size_t kMostBytes = SIZE_MAX / 4;
constexpr int kLockTries = 100;
constexpr int kPauses = 32;  // between tries: more of them only take the line away from the holder
// A chunk is cut when what is left over is at least this part of the request.
constexpr size_t kSplitDivisor = 32;
// A stream that nobody waits for gets a mark after so many frees.
constexpr uint32_t kFreesPerMark = 256;

}  // namespace

Arena::~Arena() {
  for (const auto& [pointer, reservation] : reservations_) source_.Give(pointer, reservation.bytes).IgnoreError();
  for (const ChunkHeap::Region& region : heap_.regions()) {
    if (growable_ && region.data == device::GrowableBase(growable_.get())) {
      source_.Release(region_bytes_);
    } else {
      source_.Give(region.data, region.bytes).IgnoreError();
    }
  }
}

std::unique_lock<std::mutex> Arena::Acquire() const {
  std::unique_lock lock(mutex_, std::try_to_lock);
  for (int i = 0; i < kLockTries && !lock.owns_lock(); ++i) {
    for (int pause = 0; pause < kPauses; ++pause) __builtin_ia32_pause();
    static_cast<void>(lock.try_lock());
  }
  if (!lock.owns_lock()) lock.lock();
  return lock;
}

// ---- The free lists ---------------------------------------------------------------------------------------------

ChunkBins& Arena::BinsOf(const Chunk& chunk) {
  return chunk.captured ? streams_[chunk.owner].captured : streams_[chunk.owner].bins;
}

// The best fit among all that the user may have: of equals its own, then nobody's. Taking a worse one because it is at
// hand would scatter what is left.
Chunk* Arena::FindUsable(size_t bytes, ChunkOwner user) {
  Chunk* best = nullptr;
  const auto consider = [&](const ChunkBins& bins, uint64_t newest) {
    if (bins.empty() || (best != nullptr && best->bytes == bytes)) return;
    Chunk* const chunk = bins.Find(bytes, newest);
    if (chunk != nullptr && (best == nullptr || chunk->bytes < best->bytes)) best = chunk;
  };
  if (user != kNobody) {
    consider(streams_[user].bins, UINT64_MAX);
    consider(streams_[user].captured, UINT64_MAX);
  }
  consider(streams_[kNobody].bins, UINT64_MAX);
  for (ChunkOwner owner = 1; owner < streams_.size(); ++owner) {
    if (owner != user) consider(streams_[owner].bins, UsableBy(user, owner));
  }
  return best;
}

// For a capturing stream: its own chunks, those of earlier captures first, then nobody's.
Chunk* Arena::FindCaptured(size_t bytes, ChunkOwner user) {
  if (Chunk* chunk = streams_[user].captured.Find(bytes, UINT64_MAX)) return chunk;
  if (Chunk* chunk = streams_[user].bins.Find(bytes, UINT64_MAX)) return chunk;
  return streams_[kNobody].bins.Find(bytes, UINT64_MAX);
}

void* Arena::HandOut(Chunk* chunk, size_t bytes, ChunkOwner user, bool captured) {
  if (chunk->free) BinsOf(*chunk).Remove(chunk);
  const size_t rest = chunk->bytes - bytes;
  if (rest >= kAlignmentBytes && (rest > bytes / kSplitDivisor || rest > config_.max_dead_bytes_per_chunk)) {
    Chunk* const remainder = heap_.Split(chunk, bytes);
    BinsOf(*remainder).Insert(remainder);
  }
  chunk->captured = captured || (chunk->captured && chunk->owner == user);
  const StreamState& state = streams_[user];
  chunk->owner = user;
  chunk->generation = state.generation;
  chunk->untagged = user == kNobody;
  chunk->label = CurrentLabel();
  chunk->requested = bytes;
  chunk->cache = state.cache.get();
  heap_.AddLive(chunk);
  if (chunk->cache != nullptr) {
    chunk->cache->Charge(chunk->bytes);
  } else {
    use_.Add(chunk->bytes);
  }
  stats_.CountLargest(chunk->bytes);
  ++stats_.allocations;
  return chunk->data;
}

Chunk* Arena::PutBack(Chunk* chunk) {
  chunk = MergeNeighbours(chunk);
  BinsOf(*chunk).Insert(chunk);
  return chunk;
}

void Arena::GiveToNobody(Chunk* chunk) {
  chunk->owner = kNobody;
  chunk->stamp = 0;
  chunk->captured = false;
  PutBack(chunk);
}

// A free chunk changes hands; returns what it has become part of.
Chunk* Arena::Retag(Chunk* chunk, ChunkOwner owner, uint64_t stamp) {
  BinsOf(*chunk).Remove(chunk);
  chunk->owner = owner;
  chunk->stamp = stamp;
  return PutBack(chunk);
}

// Whether `gone` may become part of `kept` and take its tags.
bool Arena::MayMerge(const Chunk& kept, const Chunk& gone) const {
  if (!gone.free) return false;
  if (gone.owner == kept.owner) return gone.captured == kept.captured;
  return kept.owner == kNobody && IsDone(gone);
}

// `chunk` is in no list; neither is the result.
Chunk* Arena::MergeNeighbours(Chunk* chunk) {
  if (Chunk* after = chunk->after; after != nullptr && MayMerge(*chunk, *after)) {
    BinsOf(*after).Remove(after);
    if (chunk->owner == kNobody) after->stamp = 0;
    heap_.MergeAfter(chunk);
  }
  if (Chunk* before = chunk->before; before != nullptr && MayMerge(*chunk, *before)) {
    BinsOf(*before).Remove(before);
    before->owner = chunk->owner;
    before->captured = chunk->captured;
    before->stamp = chunk->owner == kNobody ? 0 : std::max(before->stamp, chunk->stamp);
    heap_.MergeAfter(before);
    chunk = before;
  }
  return chunk;
}

// ---- Requests ---------------------------------------------------------------------------------------------------

Result<void*> Arena::AllocateOnStream(size_t bytes, device::Stream stream) {
  if (bytes == 0) return nullptr;
  const size_t size = AlignUp(std::min(bytes, kMostBytes), kAlignmentBytes);
  if (StreamCache* cache = caches_.Find(stream)) {
    if (Chunk* chunk = cache->Take(stream, size)) return chunk->data;
  }
  std::unique_lock<std::mutex> lock = Acquire();
  if (bytes > kMostBytes) return Fail(bytes, OutOfMemory("no memory can be as large"));
  const ChunkOwner user = OwnerOf(stream);
  if (streams_[user].may_capture && IsCapturing(stream)) {
    if (Chunk* chunk = FindCaptured(size, user)) return HandOut(chunk, size, user, true);
    ++stats_.failures;
    return FailedPrecondition("the arena has no free chunk of ", bytes,
                              " bytes for a stream that is captured; run the same shapes once before capturing");
  }
  Status why;
  Chunk* chunk = FindUsable(size, user);
  if (chunk == nullptr) [[unlikely]]
    chunk = SlowFind(&lock, size, user, &why);
  if (chunk == nullptr) return Fail(bytes, why);
  return HandOut(chunk, size, user, false);
}

Result<void*> Arena::Allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  std::unique_lock<std::mutex> lock = Acquire();
  if (bytes > kMostBytes) return Fail(bytes, OutOfMemory("no memory can be as large"));
  const size_t size = AlignUp(bytes, kAlignmentBytes);
  Status why;
  if (!quarantine_.empty()) {
    device::DeviceGuard guard(source_.ordinal);
    RelaxedCapture relaxed;
    Poll();
  }
  Chunk* chunk = FindUsable(size, kNobody);
  if (chunk == nullptr) chunk = SlowFind(&lock, size, kNobody, &why);
  if (chunk == nullptr) return Fail(bytes, why);
  return HandOut(chunk, size, kNobody, false);
}

Result<void*> Arena::Reserve(size_t bytes) {
  if (bytes == 0) return nullptr;
  std::unique_lock<std::mutex> lock = Acquire();
  if (bytes > kMostBytes) return Fail(bytes, OutOfMemory("no memory can be as large"));
  const size_t size = AlignUp(bytes, kAlignmentBytes);
  void* pointer = nullptr;
  const bool over = config_.max_bytes != 0 && static_cast<size_t>(stats_.bytes_reserved) + size > config_.max_bytes;
  Status status = over ? OutOfMemory("the arena's limit is reached") : source_.Take(&pointer, size);
  if (!status.ok()) {
    if (status.code() != StatusCode::kOutOfMemory) return Fail(bytes, status);
    WaitForEverything(&lock);
    Give(TakeIdleRegions());
    if (config_.max_bytes == 0 || static_cast<size_t>(stats_.bytes_reserved) + size <= config_.max_bytes) {
      status = source_.Take(&pointer, size);
    }
    if (!status.ok()) return Fail(bytes, status);
  }
  reservations_.emplace(pointer, Reservation{size, CurrentLabel()});
  stats_.CountTaken(size);
  ++stats_.reserves;
  stats_.CountLargest(size);
  use_.AddReserved(size);
  return pointer;
}

void Arena::Free(void* pointer) {
  if (pointer == nullptr) return;
  StreamCache::Answer answer = StreamCache::Answer::kRefused;
  if (Chunk* chunk = heap_.FindLive(pointer); chunk != nullptr && chunk->cache != nullptr) {
    answer = chunk->cache->Put(chunk);
    if (answer == StreamCache::Answer::kTaken) return;
  }
  if (answer == StreamCache::Answer::kRefused) {
    std::unique_lock<std::mutex> lock = Acquire();
    if (Chunk* chunk = heap_.TakeLive(pointer)) return FreeChunk(chunk);
    if (const auto found = reservations_.find(pointer); found != reservations_.end()) {
      const size_t bytes = found->second.bytes;
      reservations_.erase(found);
      use_.SubtractReserved(bytes);
      stats_.CountGiven(bytes);
      lock.unlock();  // the driver waits for the device
      return source_.Give(pointer, bytes).IgnoreError();
    }
  }
  Log(LogLevel::kError, StrCat("free of ", pointer, ", which is not memory of this arena; ignored"));
}

void Arena::FreeChunk(Chunk* chunk) {
  use_.Subtract(chunk->bytes);
  chunk->label = nullptr;
  if (chunk->untagged) {
    std::vector<StreamProgress::Point> points;
    {
      device::DeviceGuard guard(source_.ordinal);
      RelaxedCapture relaxed;
      points = progress_.MarkAll();
    }
    if (points.empty()) return GiveToNobody(chunk);
    quarantine_.push_back({chunk, std::move(points)});
    return;
  }
  StreamState& state = streams_[chunk->owner];
  if (chunk->generation != state.generation) return GiveToNobody(chunk);
  chunk->stamp = state.cache->CountFree();
  PutBack(chunk);
  if (++state.unmarked >= kFreesPerMark) [[unlikely]]
    MarkAndSweep(&state);
}

Result<void*> Arena::Fail(size_t bytes, const Status& why) {
  ++stats_.failures;
  if (why.code() != StatusCode::kOutOfMemory) return why;
  return OutOfMemoryError(bytes, source_, why.message(), StatsLocked(), UsersLocked(kUsersInError));
}

// ---- Statistics -------------------------------------------------------------------------------------------------

AllocatorStats Arena::StatsLocked() const {
  AllocatorStats stats = stats_;
  stats.limit_bytes = static_cast<int64_t>(config_.max_bytes);
  stats.bytes_in_use = static_cast<int64_t>(use_.now() + use_.reserved());
  stats.peak_bytes_in_use = use_.peak();
  for (const StreamState& state : streams_) {
    if (state.cache == nullptr) continue;
    stats.bytes_in_use -= static_cast<int64_t>(state.cache->spare());
    stats.allocations += state.cache->hits();
  }
  return stats;
}

AllocatorStats Arena::Stats() const {
  std::lock_guard lock(mutex_);
  return StatsLocked();
}

std::vector<MemoryUser> Arena::LargestUsers(size_t most) const {
  std::lock_guard lock(mutex_);
  return UsersLocked(most);
}

std::vector<MemoryUser> Arena::UsersLocked(size_t most) const {
  UserTable users;
  std::vector<std::unique_lock<SpinLock>> quiet;  // labels stay while the caches are locked
  for (const StreamState& state : streams_) {
    if (state.cache != nullptr) quiet.emplace_back(state.cache->lock());
  }
  heap_.ForEachLive([&](const Chunk& chunk) {
    if (!chunk.cached) users.Add(chunk.label, chunk.bytes);
  });
  for (const auto& [pointer, reservation] : reservations_) users.Add(reservation.label, reservation.bytes);
  return users.Largest(most);
}

}  // namespace cudaep::memory
