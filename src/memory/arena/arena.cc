#include "memory/arena/arena.h"

#include <algorithm>

#include "core/checked_math.h"
#include "core/log.h"
#include "memory/allocation_label.h"
#include "memory/capture_gate.h"
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
  const DeviceWaitTurn turn;  // freeing waits for the device
  for (const auto& [pointer, reservation] : reservations_) source_.Return(pointer, reservation.bytes).IgnoreError();
  if (growable_) {
    source_.Release(region_bytes_);
    growable_.Reset();
    return;
  }
  for (const ChunkHeap::Region& region : heap_.regions()) source_.Return(region.data, region.bytes).IgnoreError();
}

// ---- Requests ---------------------------------------------------------------------------------------------------

Result<void*> Arena::AllocateOnStream(size_t bytes, device::Stream stream) {
  if (bytes == 0) return nullptr;
  if (source_.kind == MemoryKind::kPinnedHost) return Allocate(bytes);
  const size_t size = AlignUp(std::min(bytes, kMostBytes), kAlignmentBytes);
  StreamCache* const cache = caches_.Find(stream);
  if (cache != nullptr) {
    if (Chunk* chunk = cache->Pop(stream, size)) return chunk->data;
  }
  std::unique_lock lock(mutex_);
  if (bytes > kMostBytes) return Fail(bytes, OutOfMemory("no memory can be as large"));
  const ChunkOwner user = cache != nullptr && IsOf(cache->owner(), stream) ? cache->owner() : OwnerOf(stream);
  if (streams_[user].is_graphs) {
    Status missing;
    if (Chunk* chunk = FindForGraph(&lock, size, user, &missing)) return HandOut(chunk, size, user, true);
    return Fail(bytes, missing);
  }
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
  Status status = over ? OutOfMemory("the arena's limit is reached") : source_.Acquire(&pointer, size);
  if (!status.ok()) {
    if (status.code() != StatusCode::kOutOfMemory) return Fail(bytes, status);
    WaitForEverything(&lock);
    ReturnIdle(&lock, SIZE_MAX, nullptr);
    if (config_.max_bytes == 0 || static_cast<size_t>(stats_.bytes_reserved) + size <= config_.max_bytes) {
      status = source_.Acquire(&pointer, size);
    }
    if (!status.ok()) return Fail(bytes, status);
  }
  reservations_.emplace(pointer, Reservation{size, CurrentLabel()});
  stats_.CountTaken(size);
  ++stats_.reserves;
  stats_.CountLargest(size);
  reserved_ += size;
  CountUse(0);
  return pointer;
}

void Arena::Free(void* pointer) {
  if (pointer == nullptr) return;
  Lock lock;
  Chunk* chunk = heap_.FindLive(pointer);
  if (chunk == nullptr) {
    lock = Lock(mutex_);
    chunk = heap_.FindLive(pointer);  // now it is sure
  }
  StreamCache::Answer answer = StreamCache::Answer::kRefused;
  if (chunk != nullptr && chunk->cache != nullptr) answer = chunk->cache->Push(chunk);
  if (answer == StreamCache::Answer::kTaken) return;
  if (answer == StreamCache::Answer::kRefused) {
    if (!lock.owns_lock()) lock = Lock(mutex_);
    if (Chunk* live = heap_.PopLive(pointer)) return FreeChunk(live);
    if (const auto found = reservations_.find(pointer); found != reservations_.end()) {
      const size_t bytes = found->second.bytes;
      reservations_.erase(found);
      reserved_ -= bytes;
      stats_.CountGiven(bytes);
      lock.unlock();  // the driver waits for the device
      return source_.Return(pointer, bytes).IgnoreError();
    }
  }
  Log(LogLevel::kError, StrCat("free of ", pointer, ", which is not memory of this arena; ignored"));
}

// What a chunk without a stream waits for once it is freed: the copies queued on page-locked memory, which are marked
// now unless they are done, or all that any stream has queued, which is marked when memory is looked for in vain.
std::vector<StreamProgress::Point> Arena::LastUses(const Chunk* chunk) {
  if (source_.kind == MemoryKind::kDevice) return progress_.MarkAllLater();
  const auto found = uses_.find(chunk);
  if (found == uses_.end()) return {};
  const std::vector<StreamProgress::Point> points = std::move(found->second);
  uses_.erase(found);
  device::DeviceGuard guard(source_.ordinal);
  RelaxedCapture relaxed;
  for (const StreamProgress::Point& point : points) {
    if (!progress_.IsPast(point)) progress_.Settle(point);
  }
  return points;
}

void Arena::FreeChunk(Chunk* chunk) {
  handed_out_ -= chunk->requested;
  chunk->label = nullptr;
  if (chunk->untagged) {
    std::vector<StreamProgress::Point> points = LastUses(chunk);
    if (progress_.IsPast(points)) return FreeForAll(chunk);
    quarantine_.push_back({chunk, std::move(points)});
    return;
  }
  StreamState& state = streams_[chunk->owner];
  if (chunk->generation != state.generation) return FreeForAll(chunk);
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

// But for Reserve. What a cache holds was handed out and is not in use.
size_t Arena::InUse() const {
  size_t held = 0;
  for (const StreamState& state : streams_) {
    if (state.cache != nullptr) held += state.cache->held_bytes();
  }
  return handed_out_ - std::min(handed_out_, held);
}

// `bytes` more are handed out.
void Arena::CountUse(size_t bytes) {
  handed_out_ += bytes;
  if (handed_out_ <= recent_peak_ && static_cast<int64_t>(handed_out_ + reserved_) <= stats_.peak_bytes_in_use) return;
  const size_t now = InUse();
  recent_peak_ = std::max(recent_peak_, now);
  stats_.peak_bytes_in_use = std::max(stats_.peak_bytes_in_use, static_cast<int64_t>(now + reserved_));
}

AllocatorStats Arena::StatsLocked() const {
  AllocatorStats stats = stats_;
  stats.limit_bytes = static_cast<int64_t>(config_.max_bytes);
  stats.bytes_in_use = static_cast<int64_t>(InUse() + reserved_);
  stats.peak_bytes_in_use = std::max(stats.peak_bytes_in_use, stats.bytes_in_use);
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
  std::vector<std::unique_lock<SpinLock>> quiet;
  for (const StreamState& state : streams_) {
    if (state.cache != nullptr) quiet.push_back(state.cache->Lock());
  }
  heap_.ForEachLive([&](const Chunk& chunk) {
    if (!chunk.cached) users.Add(chunk.label, chunk.requested);
  });
  for (const auto& [pointer, reservation] : reservations_) users.Add(reservation.label, reservation.bytes);
  return users.Largest(most);
}

}  // namespace cudaep::memory
