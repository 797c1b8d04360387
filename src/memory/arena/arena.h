// The arena: best fit with coalescing over regions of device or pinned memory, aware of streams.
//
// Stream rules (docs/adr/005-arena-stream-rules.md). A freed chunk belongs to the stream it was used on and serves its
// next request at once. Another stream gets it when the owner's work up to the free is known to be done (Reached,
// ReleaseStream, an event that was seen to be reached), or after it was made to wait for the owner. Such waits are
// counted in AllocatorStats::stream_waits. Neighbours merge when they belong to the same stream, or when the work on
// both is done; what could not merge when it was freed merges before the arena grows.
//
// On devices whose driver can map memory behind reserved addresses the memory grows at one end, in whole steps
// (device/growable_memory.h); elsewhere, and for pinned memory, there are regions taken and given back whole.
//
// Growth: while all that is reserved stays below 1.25 times the most that was in use at once and the slack, a request
// that no usable chunk serves gets new memory; otherwise streams wait for each other first, and at last whole steps of
// idle memory are unmapped wherever they lie before as many are mapped in one piece. So concurrent Runs of small models
// never wait, and large ones stay within 1.5 times the most in use and the slack, once that most is known.
//
// Shrink gives back all whole steps that lie idle, or all regions without a live chunk.
//
// Mapped memory is its own device's alone: other devices reach it by copies.
//
// Cost: what a stream asks for again and again is served by a cache of its own (stream_cache.h), without the arena's
// lock; any other request that a free chunk serves takes that lock, no driver call and no host allocation. Streams
// announced by ExpectCaptures have no cache and cost one driver query more.
//
// Locks: the arena's, a mutex since its holder may call the driver, then those of caches, under which nobody does.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "device/growable_memory.h"
#include "memory/allocator.h"
#include "memory/arena/chunk_bins.h"
#include "memory/arena/stream_cache.h"
#include "memory/arena/stream_directory.h"
#include "memory/arena_config.h"
#include "memory/memory_source.h"
#include "memory/stream_progress.h"

namespace cudaep::memory {

class Arena final : public Allocator {
 public:
  Arena(MemorySource source, const ArenaConfig& config) : source_(std::move(source)), config_(config), streams_(1) {}
  ~Arena() override;

  Result<void*> Allocate(size_t bytes) override;
  Result<void*> AllocateOnStream(size_t bytes, device::Stream stream) override;
  Result<void*> Reserve(size_t bytes) override;
  void Free(void* pointer) override;
  void AddStream(device::Stream stream) override;
  void ExpectCaptures(device::Stream stream) override;
  Status BelongToGraph(device::Stream stream) override;
  void ReleaseStream(device::Stream stream) override;
  StreamMark Mark(device::Stream stream) override;
  void Reached(const StreamMark& mark) override;
  bool Owns(const void* pointer) const override;
  void UsedOn(const void* pointer, device::Stream stream) override;
  Status Shrink() override;
  AllocatorStats Stats() const override;
  std::vector<MemoryUser> LargestUsers(size_t most) const override;

 private:
  // What belongs to one stream; entry 0 is nobody's, for chunks that every stream may use.
  struct StreamState {
    struct Mark {
      uint64_t stamp;
      StreamProgress::Point point;
    };
    device::Stream stream = nullptr;
    bool used = false;  // the entry stands for a stream
    bool may_capture = false;
    bool is_graphs = false;   // all its chunks are `captured`
    uint32_t generation = 0;  // how often the entry changed hands
    uint32_t unmarked = 0;    // of them, since the last mark or idle moment
    uint64_t done = 0;        // those up to this one are free for everybody
    ChunkBins bins;
    ChunkBins captured;
    std::deque<Mark> marks;
    std::vector<uint64_t> waited;        // by entry: what this stream was made to wait for
    std::unique_ptr<StreamCache> cache;  // stays with the entry; counts the chunks that were freed
  };
  struct Quarantined {
    Chunk* chunk;
    std::vector<StreamProgress::Point> points;
  };
  static constexpr ChunkOwner kNobody = 0;
  static constexpr size_t kStepBytes = device::kGrowableStepBytes;  // what the driver maps device memory in, anywhere

  using Lock = std::unique_lock<std::mutex>;

  // All of these: the caller holds mutex_; those that get the lock let go of it while they wait for the device.
  bool IsOf(ChunkOwner owner, device::Stream stream) const;
  // kNobody for a stream that is not known.
  ChunkOwner FindOwner(device::Stream stream) const;
  ChunkOwner OwnerOf(device::Stream stream);
  // The newest free of `owner` whose chunk `user` may have.
  uint64_t UsableBy(const StreamState& user, ChunkOwner owner) const {
    if (owner == kNobody || &user == &streams_[owner]) return UINT64_MAX;
    return std::max(streams_[owner].done, owner < user.waited.size() ? user.waited[owner] : 0);
  }
  // Without the lock: whether the address lies between the lowest and the highest that a region ever had.
  bool MayOwn(const void* pointer) const {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    return address >= lowest_.load(std::memory_order_relaxed) && address < highest_.load(std::memory_order_relaxed);
  }
  bool IsDone(const Chunk& chunk) const;
  ChunkBins& BinsOf(const Chunk& chunk);
  Chunk* FindUsable(size_t bytes, ChunkOwner user);
  Chunk* FindCaptured(size_t bytes, ChunkOwner user);
  Chunk* FindForGraph(Lock* lock, size_t bytes, ChunkOwner user, Status* why);
  void* HandOut(Chunk* chunk, size_t bytes, ChunkOwner user, bool captured);
  std::vector<StreamProgress::Point> LastUses(const Chunk* chunk);
  void FreeChunk(Chunk* chunk);
  Chunk* PutBack(Chunk* chunk);
  Chunk* HandOver(Chunk* chunk, ChunkOwner owner, uint64_t stamp);
  bool MayMerge(const Chunk& kept, const Chunk& gone) const;
  Chunk* MergeNeighbours(Chunk* chunk);
  void FreeForAll(Chunk* chunk);
  void SetCaptured(Chunk* chunk, bool captured);
  void PutBackList(Chunk* cached);
  void EmptyCaches();
  size_t InUse() const;
  void CountUse(size_t bytes);

  Chunk* SlowFind(Lock* lock, size_t bytes, ChunkOwner user, Status* why);
  void Poll();
  void FreePast();
  void Sweep();
  void MarkPending();
  void MarkAndSweep(StreamState* state);
  bool OrderAfter(ChunkOwner user, ChunkOwner owner);
  Chunk* FindByWaiting(size_t bytes, ChunkOwner user);
  size_t BeyondBound(size_t more, size_t bytes) const;
  size_t RegionBytes(size_t bytes) const;
  Chunk* UsableTail(ChunkOwner user);
  Chunk* Grow(size_t bytes, ChunkOwner user, bool within_bound, Status* why);
  bool CanGrow();
  size_t OffsetOf(const char* data) const;
  size_t PlaceFor(size_t bytes) const;
  Status Map(size_t at, size_t bytes, Chunk** chunk);
  Status AcquireRegion(size_t bytes, Chunk** chunk);
  void UnmapIdle(size_t most, const Chunk* kept);
  std::vector<ChunkHeap::Region> PopIdleRegions();
  void ReturnIdle(Lock* lock, size_t most, const Chunk* kept);
  Chunk* GrowAtLast(Lock* lock, size_t bytes, ChunkOwner user, Status* why);
  void WaitForEverything(Lock* lock);
  Result<void*> Fail(size_t bytes, const Status& why);
  std::vector<MemoryUser> UsersLocked(size_t most) const;
  AllocatorStats StatsLocked() const;

  const MemorySource source_;
  const ArenaConfig config_;
  StreamDirectory caches_;
  std::atomic<uintptr_t> lowest_{UINTPTR_MAX}, highest_{0};  // written under mutex_
  mutable std::mutex mutex_;
  // Everything below is guarded by mutex_.
  ChunkHeap heap_;
  std::vector<StreamState> streams_;
  StreamProgress progress_;
  std::vector<Quarantined> quarantine_;
  std::unordered_map<const Chunk*, std::vector<StreamProgress::Point>> uses_;  // of pinned memory, by queued copies
  struct Reservation {
    size_t bytes;
    const char* label;
  };
  std::unordered_map<void*, Reservation> reservations_;
  AllocatorStats stats_;     // what is counted under the lock
  size_t handed_out_ = 0;    // as asked for, with what caches hold
  size_t reserved_ = 0;      // by Reserve
  size_t recent_peak_ = 0;   // of what was in use, without reserved_, since the last shrink
  size_t region_bytes_ = 0;  // of all regions
  size_t last_region_ = 0;   // bytes of the region taken last
  enum class Growable : uint8_t { kUntried, kAvailable, kMissing };
  Growable growable_state_ = Growable::kUntried;
  device::UniqueGrowableMemory growable_;
  bool shrunk_ = false;  // nothing was taken since the last shrink
};

}  // namespace cudaep::memory
