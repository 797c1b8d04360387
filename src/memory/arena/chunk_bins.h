// The free list of an arena: chunks by size, best fit first.
//
// Four bins for each power of two, a bitmap over them. A search looks through the bin of the wanted size for the best
// fit and then takes from the next bin that has any, all of whose chunks are large enough.
// Threads: guarded by the owner's lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "memory/arena/chunk_heap.h"

namespace cudaep::memory {

class ChunkBins {
 public:
  bool empty() const { return count_ == 0; }
  size_t bytes() const { return bytes_; }

  void Insert(Chunk* chunk);
  void Remove(Chunk* chunk);
  // The best chunk of at least `bytes` that was freed at `newest` or before; null if there is none.
  Chunk* Find(size_t bytes, uint64_t newest) const;
  // Some chunk; null if there is none.
  Chunk* Any() const;

 private:
  static constexpr size_t kBins = 192;
  static size_t BinOf(size_t bytes);
  size_t NextUsed(size_t bin) const;  // kBins if there is none

  std::array<Chunk*, kBins> heads_{};
  std::array<uint64_t, kBins / 64> used_{};
  size_t count_ = 0, bytes_ = 0;
};

}  // namespace cudaep::memory
