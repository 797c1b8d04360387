// The arena: best fit with coalescing over regions of device or pinned memory, aware of streams.
//
// Stream rules (docs/adr/005-arena-stream-rules.md, memory/stream_order.h). A freed chunk belongs to the stream it was
// used on and serves its next request at once. Another stream gets it when the owner's work up to the free is known to
// be done, or after it was made to wait for the owner. Such waits are counted in AllocatorStats::stream_waits.
// Neighbours merge when they belong to the same stream, or when the work on both is done; what could not merge when it
// was freed merges before the arena grows.
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

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "device/growable_memory.h"
#include "memory/allocator.h"
#include "memory/arena/chunk_bins.h"
#include "memory/arena/stream_cache.h"
#include "memory/arena_config.h"
#include "memory/memory_source.h"
#include "memory/stream_order.h"

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
  using Slot = StreamOrder::Slot;
  using Points = std::vector<StreamOrder::Point>;
  using Lock = std::unique_lock<std::mutex>;
  static constexpr Slot kNobody = StreamOrder::kNobody;
  static constexpr size_t kStepBytes = device::kGrowableStepBytes;  // what the driver maps device memory in, anywhere

  // What belongs to one stream, by its slot; nobody's is for chunks that every stream may use.
  struct StreamState {
    bool may_capture = false;
    bool is_graphs = false;  // all its chunks are `captured`
    ChunkBins bins;
    ChunkBins captured;
  };
  struct Quarantined {
    Chunk* chunk;
    Points points;
  };
  struct Reservation {
    size_t bytes;
    const char* label;
  };
  // The cache of a stream, by its slot; those of higher slots have none. Found without the lock; who finds it as the
  // stream ends is turned away by the cache itself.
  struct CacheEntry {
    std::atomic<uintptr_t> key{0};  // of the stream, 0 for none
    std::unique_ptr<StreamCache> cache;
  };
  static constexpr Slot kCaches = 128;
  // The default streams are the handles 0 to 2.
  static uintptr_t KeyOf(device::Stream stream) { return ~reinterpret_cast<uintptr_t>(stream); }
  static size_t HashOf(uintptr_t key) { return key * 0x9e3779b97f4a7c15u >> 56; }
  Slot FindCached(device::Stream stream) const;  // kNobody: it has no cache
  template <class F>
  void ForEachCache(F&& visit) const {
    for (Slot slot = 1; slot < caches_end_; ++slot) {
      if (caches_[slot].cache != nullptr) visit(*caches_[slot].cache);
    }
  }
  bool MayOwn(const void* pointer) const;  // without the lock

  // All of these: the caller holds mutex_; those that get the lock let go of it while they wait for the device.
  Slot SlotOf(device::Stream stream);
  void CloseCache(Slot slot);
  Chunk* FindUsable(size_t bytes, Slot user);
  Chunk* FindCaptured(size_t bytes, Slot user);
  Chunk* FindForGraph(Lock* lock, size_t bytes, Slot user, Status* why);
  void* HandOut(Chunk* chunk, size_t bytes, Slot user, bool captured);
  Points LastUses(const Chunk* chunk);
  void FreeChunk(Chunk* chunk);
  bool IsDone(const Chunk& chunk) const;
  ChunkBins& BinsOf(const Chunk& chunk);
  bool MayMerge(const Chunk& kept, const Chunk& gone) const;
  void PutBack(Chunk* chunk);
  Chunk* MergeNeighbours(Chunk* chunk);
  Chunk* FreeForAll(Chunk* chunk);
  void SetCaptured(Chunk* chunk, bool captured);
  void PutBackList(Chunk* cached);
  size_t InUse() const;
  void CountUse(size_t bytes);

  Chunk* Search(Lock* lock, size_t bytes, Slot user, Status* why);
  Chunk* FindByWaiting(size_t bytes, Slot user);
  void FreePast();
  void Collect();
  void SettleFree();
  void TakeBack();
  Status WaitForFree(Lock* lock);
  bool CanGrow();
  size_t BeyondBound(size_t more, size_t bytes) const;
  size_t RegionBytes(size_t bytes) const;
  Chunk* UsableTail(Slot user);
  Chunk* Grow(size_t bytes, Slot user, bool within_bound, Status* why);
  size_t OffsetOf(const char* data) const;
  size_t PlaceFor(size_t bytes) const;
  Status Map(size_t at, size_t bytes, Chunk** chunk);
  Status AcquireRegion(size_t bytes, Chunk** chunk);
  void UnmapIdle(size_t most, const Chunk* kept);
  void ReturnIdle(Lock* lock, size_t most, const Chunk* kept);
  Result<void*> Fail(size_t bytes, const Status& why);
  bool IsOverLimit(size_t more) const {
    return config_.max_bytes != 0 && static_cast<size_t>(stats_.bytes_reserved) + more > config_.max_bytes;
  }
  std::vector<MemoryUser> UsersLocked(size_t most) const;
  AllocatorStats StatsLocked() const;

  const MemorySource source_;
  const ArenaConfig config_;
  std::array<CacheEntry, kCaches> caches_;         // written under mutex_
  std::array<std::atomic<uint8_t>, 256> hints_{};  // slots of streams, by their hash
  std::atomic<Slot> caches_end_{1};                // behind the last one; written under mutex_
  // The lowest and the highest address that a region ever had; written under mutex_.
  std::atomic<uintptr_t> lowest_{UINTPTR_MAX}, highest_{0};
  alignas(64) mutable std::mutex mutex_;  // not in a line that every request reads
  // Everything below is guarded by mutex_.
  StreamOrder order_;
  std::vector<StreamState> streams_;
  ChunkHeap heap_;
  std::vector<Quarantined> quarantine_;            // freed, and any stream may use them
  std::unordered_map<const Chunk*, Points> uses_;  // of pinned memory, by queued copies
  std::unordered_map<void*, Reservation> reservations_;
  AllocatorStats stats_;     // what is counted under the lock
  size_t handed_out_ = 0;    // as asked for, with what caches hold
  size_t reserved_ = 0;      // by Reserve
  size_t recent_peak_ = 0;   // of what was in use, without reserved_, since the last shrink
  size_t region_bytes_ = 0;  // of all regions
  size_t last_region_ = 0;   // bytes of the region taken last; 0: none since the last shrink
  bool shrunk_ = false;
  std::optional<bool> can_grow_;
  device::UniqueGrowableMemory growable_;
};

}  // namespace cudaep::memory
