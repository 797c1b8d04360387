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

// ---- Requests ---------------------------------------------------------------------------------------------------

Result<void*> Arena::AllocateOnStream(size_t bytes, device::Stream stream) {
  if (bytes == 0) return nullptr;
  const size_t size = AlignUp(std::min(bytes, kMostBytes), kAlignmentBytes);
  StreamCache* const cache = caches_.Find(stream);
  if (cache != nullptr) {
    if (Chunk* chunk = cache->Take(stream, size)) return chunk->data;
  }
  std::unique_lock lock(mutex_);
  if (bytes > kMostBytes) return Fail(bytes, OutOfMemory("no memory can be as large"));
  const ChunkOwner user = cache != nullptr && IsOf(cache->owner(), stream) ? cache->owner() : OwnerOf(stream);
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
  std::unique_lock lock(mutex_);
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
  std::unique_lock lock(mutex_);
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
  std::unique_lock<SpinLock> lock;
  Chunk* chunk = heap_.FindLive(pointer);
  if (chunk == nullptr) {
    lock = std::unique_lock(mutex_);
    chunk = heap_.FindLive(pointer);  // now it is sure
  }
  StreamCache::Answer answer = StreamCache::Answer::kRefused;
  if (chunk != nullptr && chunk->cache != nullptr) answer = chunk->cache->Put(chunk);
  if (answer == StreamCache::Answer::kTaken) return;
  if (answer == StreamCache::Answer::kRefused) {
    if (!lock.owns_lock()) lock = std::unique_lock(mutex_);
    if (Chunk* live = heap_.TakeLive(pointer)) return FreeChunk(live);
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
  use_.SubtractLocked(chunk->requested);
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
  stats.bytes_in_use = use_.InUse();
  stats.peak_bytes_in_use = use_.peak();
  for (const StreamState& state : streams_) {
    if (state.cache != nullptr) stats.allocations += state.cache->hits();
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
  const std::vector<std::unique_lock<SpinLock>> quiet = use_.LockLeases();  // labels stay while the caches are locked
  heap_.ForEachLive([&](const Chunk& chunk) {
    if (!chunk.cached) users.Add(chunk.label, chunk.requested);
  });
  for (const auto& [pointer, reservation] : reservations_) users.Add(reservation.label, reservation.bytes);
  return users.Largest(most);
}

}  // namespace cudaep::memory
