#include "memory/arena/arena.h"

#include <algorithm>

#include "core/checked_math.h"
#include "core/log.h"
#include "core/strings.h"
#include "memory/allocation_label.h"
#include "memory/capture_gate.h"
#include "memory/out_of_memory.h"
#include "memory/relaxed_capture.h"
#include "memory/user_table.h"

namespace cudaep::memory {
namespace {

constexpr size_t kMostBytes = SIZE_MAX / 4;
// Chunks that become nobody's when their stream is idle.
constexpr int kMostAtIdle = 256;

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
  const Slot cached = FindCached(stream);
  if (cached != kNobody) {
    if (Chunk* chunk = caches_[cached].cache->Pop(stream, size)) return chunk->data;
  }
  Lock lock(mutex_);
  if (bytes > kMostBytes) return Fail(bytes, OutOfMemory("no memory can be as large"));
  const bool is_known = cached != kNobody && order_.is_used(cached) && order_.stream(cached) == stream;
  const Slot user = is_known ? cached : SlotOf(stream);
  const StreamState& state = streams_[user];
  Status why;
  if (state.is_graphs) {
    if (Chunk* chunk = FindForGraph(&lock, size, user, &why)) return HandOut(chunk, size, user, true);
    return Fail(bytes, why);
  }
  if (state.may_capture && IsCapturing(stream)) {
    if (Chunk* chunk = FindCaptured(size, user)) return HandOut(chunk, size, user, true);
    return Fail(bytes,
                FailedPrecondition("the arena has no free chunk of ", bytes,
                                   " bytes for a stream that is captured; run the same shapes once before capturing"));
  }
  Chunk* chunk = FindUsable(size, user);
  if (chunk == nullptr) [[unlikely]]
    chunk = Search(&lock, size, user, &why);
  return chunk != nullptr ? HandOut(chunk, size, user, false) : Fail(bytes, why);
}

Result<void*> Arena::Allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  Lock lock(mutex_);
  if (bytes > kMostBytes) return Fail(bytes, OutOfMemory("no memory can be as large"));
  const size_t size = AlignUp(bytes, kAlignmentBytes);
  if (!quarantine_.empty()) {
    device::DeviceGuard guard(source_.ordinal);
    RelaxedCapture relaxed;
    order_.Poll();
    FreePast();
  }
  Status why;
  Chunk* chunk = FindUsable(size, kNobody);
  if (chunk == nullptr) chunk = Search(&lock, size, kNobody, &why);
  return chunk != nullptr ? HandOut(chunk, size, kNobody, false) : Fail(bytes, why);
}

Result<void*> Arena::Reserve(size_t bytes) {
  if (bytes == 0) return nullptr;
  Lock lock(mutex_);
  if (bytes > kMostBytes) return Fail(bytes, OutOfMemory("no memory can be as large"));
  const size_t size = AlignUp(bytes, kAlignmentBytes);
  void* pointer = nullptr;
  const auto acquire = [&] {
    return IsOverLimit(size) ? OutOfMemory("the arena's limit is reached") : source_.Acquire(&pointer, size);
  };
  Status status = acquire();
  if (status.code() == StatusCode::kOutOfMemory) {
    WaitForFree(&lock).IgnoreError();
    ReturnIdle(&lock, SIZE_MAX, nullptr);
    status = acquire();
  }
  if (!status.ok()) return Fail(bytes, status);
  reservations_.emplace(pointer, Reservation{size, CurrentLabel()});
  stats_.CountTaken(size);
  ++stats_.reserves;
  stats_.CountLargest(size);
  reserved_ += size;
  CountUse(0);
  return pointer;
}

Result<void*> Arena::Fail(size_t bytes, const Status& why) {
  ++stats_.failures;
  if (why.code() != StatusCode::kOutOfMemory) return why;
  return OutOfMemoryError(bytes, source_, why.message(), StatsLocked(), UsersLocked(kUsersInError));
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

// What a chunk without a stream waits for once it is freed: the copies queued on page-locked memory, for which events
// are recorded now unless they are done, or all that any stream has queued; events then when memory is missed.
Arena::Points Arena::LastUses(const Chunk* chunk) {
  if (source_.kind == MemoryKind::kDevice) return order_.NextOfAll();
  auto uses = uses_.extract(chunk);
  if (uses.empty()) return {};
  device::DeviceGuard guard(source_.ordinal);
  RelaxedCapture relaxed;
  order_.Settle(uses.mapped());
  return std::move(uses.mapped());
}

void Arena::FreeChunk(Chunk* chunk) {
  handed_out_ -= chunk->requested;
  chunk->label = nullptr;
  if (chunk->life == 0) {
    Points points = LastUses(chunk);
    if (!order_.IsPast(points)) return quarantine_.push_back({chunk, std::move(points)});
  } else if (chunk->life == order_.life(chunk->owner)) {
    chunk->stamp = order_.Next(chunk->owner).sequence;
    return PutBack(chunk);
  }
  FreeForAll(chunk);
}

// ---- Page-locked memory -----------------------------------------------------------------------------------------

bool Arena::MayOwn(const void* pointer) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return address >= lowest_.load(std::memory_order_relaxed) && address < highest_.load(std::memory_order_relaxed);
}

bool Arena::Owns(const void* pointer) const {
  if (!MayOwn(pointer)) return false;
  std::lock_guard lock(mutex_);
  return source_.kind == MemoryKind::kPinnedHost && heap_.FindLiveAround(pointer) != nullptr;
}

void Arena::UsedOn(const void* pointer, device::Stream stream) {
  if (!MayOwn(pointer)) return;
  std::lock_guard lock(mutex_);
  const Chunk* const chunk = source_.kind == MemoryKind::kPinnedHost ? heap_.FindLiveAround(pointer) : nullptr;
  if (chunk == nullptr) return;
  StreamOrder::Point point = order_.Next(SlotOf(stream));
  // A graph copies from or to these addresses at each replay: nobody else gets them while the stream lives.
  if (streams_[point.slot].may_capture && IsCapturing(stream)) point.sequence = UINT64_MAX;
  Points& uses = uses_[chunk];
  const auto same = std::find_if(uses.begin(), uses.end(), [&](const auto& use) { return use.life == point.life; });
  if (same == uses.end()) {
    uses.push_back(point);
  } else {
    same->sequence = std::max(same->sequence, point.sequence);
  }
}

// ---- Streams and their caches -----------------------------------------------------------------------------------

Arena::Slot Arena::FindCached(device::Stream stream) const {
  const uintptr_t key = KeyOf(stream);
  const Slot hint = hints_[HashOf(key)].load(std::memory_order_relaxed);
  if (caches_[hint].key.load(std::memory_order_acquire) == key) [[likely]]
    return hint;
  const Slot end = caches_end_.load(std::memory_order_acquire);
  for (Slot slot = 1; slot < end; ++slot) {
    if (caches_[slot].key.load(std::memory_order_acquire) == key) return slot;
  }
  return kNobody;
}

Arena::Slot Arena::SlotOf(device::Stream stream) {
  const Slot slot = order_.Add(stream);
  if (slot >= streams_.size()) streams_.resize(slot + 1);
  if (slot >= kCaches || source_.kind != MemoryKind::kDevice || streams_[slot].may_capture) return slot;
  CacheEntry& entry = caches_[slot];
  if (entry.key.load(std::memory_order_relaxed) != 0) return slot;
  if (entry.cache == nullptr) entry.cache = std::make_unique<StreamCache>(&order_.counter(slot));
  entry.cache->Open(stream, order_.life(slot));
  entry.key.store(KeyOf(stream), std::memory_order_release);
  hints_[HashOf(KeyOf(stream))].store(static_cast<uint8_t>(slot), std::memory_order_relaxed);
  caches_end_.store(std::max<Slot>(caches_end_, slot + 1), std::memory_order_release);
  return slot;
}

void Arena::CloseCache(Slot slot) {
  if (slot >= kCaches || caches_[slot].cache == nullptr) return;
  caches_[slot].key.store(0, std::memory_order_relaxed);
  PutBackList(caches_[slot].cache->Close());
}

void Arena::AddStream(device::Stream stream) {
  std::lock_guard lock(mutex_);
  SlotOf(stream);
}

void Arena::ExpectCaptures(device::Stream stream) {
  std::lock_guard lock(mutex_);
  const Slot slot = SlotOf(stream);
  streams_[slot].may_capture = true;
  CloseCache(slot);
}

Status Arena::BelongToGraph(device::Stream stream) {
  ExpectCaptures(stream);
  std::lock_guard lock(mutex_);
  streams_[SlotOf(stream)].is_graphs = true;
  return Status::Ok();
}

StreamMark Arena::Mark(device::Stream stream) {
  std::lock_guard lock(mutex_);
  return order_.Mark(stream);
}

void Arena::Reached(const StreamMark& mark) {
  std::lock_guard lock(mutex_);
  const Slot slot = order_.Reached(mark);
  if (slot == kNobody) return;
  FreePast();
  if (slot < kCaches && caches_[slot].cache != nullptr) PutBackList(caches_[slot].cache->Idle());
  // Merged with their neighbours at once, so that the next Run of any stream finds large chunks; a search takes the
  // rest of a very long list, and what was freed after the mark.
  for (int i = 0; i < kMostAtIdle; ++i) {
    Chunk* const chunk = streams_[slot].bins.Any();
    if (chunk == nullptr || !IsDone(*chunk)) return;
    FreeForAll(chunk);
  }
}

void Arena::ReleaseStream(device::Stream stream) {
  std::lock_guard lock(mutex_);
  const Slot slot = order_.Find(stream);
  if (slot == kNobody) return;
  order_.Release(stream);
  FreePast();
  CloseCache(slot);
  StreamState& state = streams_[slot];
  for (ChunkBins* bins : {&state.bins, &state.captured}) {
    while (Chunk* chunk = bins->Any()) FreeForAll(chunk);
  }
  state = {};  // live chunks outlast the stream (a session's outputs): their life tells
}

// ---- Statistics -------------------------------------------------------------------------------------------------

// But for Reserve. What a cache holds was handed out and is not in use.
size_t Arena::InUse() const {
  size_t held = 0;
  ForEachCache([&](const StreamCache& cache) { held += cache.held_bytes(); });
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
  ForEachCache([&](const StreamCache& cache) { stats.allocations += cache.hits(); });
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
  ForEachCache([&](const StreamCache& cache) { quiet.push_back(cache.Lock()); });
  heap_.ForEachLive([&](const Chunk& chunk) {
    if (!chunk.cached) users.Add(chunk.label, chunk.requested);
  });
  for (const auto& [pointer, reservation] : reservations_) users.Add(reservation.label, reservation.bytes);
  return users.Largest(most);
}

}  // namespace cudaep::memory
