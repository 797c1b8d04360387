// Regions of memory cut into chunks: the bookkeeping of an arena, without any device call and without a policy.
//
// The chunks of a region are linked in address order and cover it; regions are kept in address order too. Records are
// recycled, so that splitting and merging in a steady state takes nothing from the host's heap. Live chunks are found
// by the address they begin at, others by any address within. Threads: guarded by the owner's lock, but for FindLive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "memory/arena/live_chunks.h"

namespace cudaep::memory {

class StreamCache;

struct Chunk {
  char* data = nullptr;
  size_t bytes = 0;
  Chunk* before = nullptr;  // in address order, of the same region
  Chunk* after = nullptr;
  Chunk* bin_before = nullptr;  // in the free list
  Chunk* bin_after = nullptr;
  const char* label = nullptr;   // of the user, while live
  uint64_t stamp = 0;            // of the free, a point of its owner
  size_t requested = 0;          // bytes that were asked for, rounded up
  StreamCache* cache = nullptr;  // of the stream it was handed out to, if that has one
  uint32_t owner = 0;            // the slot of its stream (memory/stream_order.h), or nobody's
  uint32_t life = 0;             // of the stream it was handed out to; 0: it was handed out without one
  bool free = false;             // in a free list
  bool cached = false;           // in `cache`
  bool captured = false;         // stays with its owner, a graph may know the address
};

class ChunkHeap {
 public:
  struct Region {
    char* data = nullptr;
    size_t bytes = 0;
    Chunk* first = nullptr;
    Chunk* last = nullptr;
    char* end() const { return data + bytes; }
  };

  // One chunk that covers the new region; neither free nor live.
  Chunk* AddRegion(void* data, size_t bytes);
  // The same, as a part of the regions that it adjoins.
  Chunk* AddAdjoining(void* data, size_t bytes);
  // The chunk, in no list, leaves its region, which ends, shrinks or falls in two.
  void CutOut(Chunk* chunk);
  const std::vector<Region>& regions() const { return regions_; }

  // Cuts the chunk to `bytes`; what is left over is a chunk of its own with the same tags.
  Chunk* Split(Chunk* chunk, size_t bytes);
  // The chunk takes in its successor, whose record ends.
  void MergeAfter(Chunk* chunk);

  void PushLive(Chunk* chunk) { live_.Insert(chunk); }
  // Null for an address that no live chunk begins at. This one may be called without the owner's lock (live_chunks.h).
  Chunk* FindLive(const void* data) const { return live_.Find(data); }
  // The live chunk that the address lies in, which takes a walk unless the chunk begins there; null if there is none.
  Chunk* FindLiveAround(const void* address) const;
  Chunk* PopLive(const void* data) { return live_.Remove(data); }
  size_t live_count() const { return live_.count(); }
  template <class F>
  void ForEachLive(F&& visit) const {
    live_.ForEach(visit);
  }

 private:
  Chunk* NewRecord();
  void Recycle(Chunk* record);
  // The region that the address lies in or would come before.
  static size_t RegionFrom(const std::vector<Region>& regions, const char* address);
  std::vector<Region>::iterator RegionFrom(const char* address) {
    return regions_.begin() + static_cast<ptrdiff_t>(RegionFrom(regions_, address));
  }

  std::vector<Region> regions_;
  LiveChunks live_;
  std::deque<Chunk> records_;
  Chunk* spare_ = nullptr;  // linked by `after`
};

}  // namespace cudaep::memory
