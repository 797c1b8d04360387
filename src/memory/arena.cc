#include "memory/arena.h"

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
// Chunks that become nobody's when their stream is idle.
constexpr int kMostAtIdle = 256;

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

// ---- Streams ----------------------------------------------------------------------------------------------------

ChunkOwner Arena::OwnerOf(device::Stream stream) {
  ChunkOwner vacant = 0;
  for (ChunkOwner i = 1; i < streams_.size(); ++i) {
    if (!streams_[i].used) {
      vacant = i;
    } else if (streams_[i].stream == stream) {
      return i;
    }
  }
  if (vacant == 0) {
    vacant = static_cast<ChunkOwner>(streams_.size());
    streams_.emplace_back();
  }
  StreamState& state = streams_[vacant];
  state.stream = stream;
  state.used = true;
  progress_.Add(stream);
  return vacant;
}

void Arena::AddStream(device::Stream stream) {
  std::lock_guard lock(mutex_);
  OwnerOf(stream);
}

void Arena::ExpectCaptures(device::Stream stream) {
  std::lock_guard lock(mutex_);
  streams_[OwnerOf(stream)].may_capture = true;
}

void Arena::StreamIdle(device::Stream stream) {
  const std::unique_lock<std::mutex> lock = Acquire();
  StreamState& state = streams_[OwnerOf(stream)];
  progress_.Idle(stream);
  state.done = state.freed;
  state.marks.clear();
  state.unmarked = 0;
  // Merged with their neighbours at once, so that the next Run of any stream finds large chunks; the sweep takes the
  // rest of a very long list.
  for (int i = 0; i < kMostAtIdle; ++i) {
    Chunk* const chunk = state.bins.Any();
    if (chunk == nullptr) return;
    state.bins.Remove(chunk);
    GiveToNobody(chunk);
  }
}

void Arena::ReleaseStream(device::Stream stream) {
  std::lock_guard lock(mutex_);
  const ChunkOwner owner = OwnerOf(stream);
  progress_.Release(stream);
  StreamState& state = streams_[owner];
  for (ChunkBins* bins : {&state.bins, &state.captured}) {
    while (Chunk* chunk = bins->Any()) {
      bins->Remove(chunk);
      GiveToNobody(chunk);
    }
  }
  // Live chunks outlast the stream (a session's outputs): their generation tells.
  state = {.generation = state.generation + 1};
  for (StreamState& other : streams_) {
    if (owner < other.waited.size()) other.waited[owner] = 0;
  }
}

// The newest free of `owner` whose chunk `user` may have.
uint64_t Arena::UsableBy(ChunkOwner user, ChunkOwner owner) const {
  if (user == owner || owner == kNobody) return UINT64_MAX;
  const std::vector<uint64_t>& waited = streams_[user].waited;
  return std::max(streams_[owner].done, owner < waited.size() ? waited[owner] : 0);
}

bool Arena::IsDone(const Chunk& chunk) const {
  return chunk.owner == kNobody || (!chunk.captured && chunk.stamp <= streams_[chunk.owner].done);
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
  chunk->owner = user;
  chunk->generation = streams_[user].generation;
  chunk->untagged = user == kNobody;
  chunk->label = CurrentLabel();
  heap_.AddLive(chunk);
  arena_in_use_ += chunk->bytes;
  arena_peak_ = std::max(arena_peak_, arena_in_use_);
  stats_.CountUse(chunk->bytes);
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
  std::unique_lock<std::mutex> lock = Acquire();
  if (bytes > kMostBytes) return Fail(bytes, OutOfMemory("no memory can be as large"));
  const size_t size = AlignUp(bytes, kAlignmentBytes);
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
  stats_.CountUse(size);
  return pointer;
}

void Arena::Free(void* pointer) {
  if (pointer == nullptr) return;
  std::unique_lock<std::mutex> lock = Acquire();
  if (Chunk* chunk = heap_.TakeLive(pointer)) {
    arena_in_use_ -= chunk->bytes;
    stats_.CountFree(chunk->bytes);
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
    chunk->stamp = ++state.freed;
    PutBack(chunk);
    if (++state.unmarked >= kFreesPerMark) [[unlikely]]
      MarkAndSweep(&state);
    return;
  }
  if (const auto found = reservations_.find(pointer); found != reservations_.end()) {
    const size_t bytes = found->second.bytes;
    reservations_.erase(found);
    stats_.CountFree(bytes);
    stats_.CountGiven(bytes);
    lock.unlock();  // the driver waits for the device
    source_.Give(pointer, bytes).IgnoreError();
    return;
  }
  Log(LogLevel::kError, StrCat("free of ", pointer, ", which is not memory of this arena; ignored"));
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
  heap_.ForEachLive([&](const Chunk& chunk) { users.Add(chunk.label, chunk.bytes); });
  for (const auto& [pointer, reservation] : reservations_) users.Add(reservation.label, reservation.bytes);
  return users.Largest(most);
}

}  // namespace cudaep::memory
