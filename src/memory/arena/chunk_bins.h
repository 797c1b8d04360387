// The free list of an arena: chunks by size, best fit first.
//
// Four bins for each power of two, a bitmap over them. A search looks through the bin of the wanted size for the best
// fit and then takes from the next bin that has any, all of whose chunks are large enough.
// Threads: guarded by the owner's lock.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "memory/arena/chunk_heap.h"

namespace cudaep::memory {

class ChunkBins {
 public:
  bool empty() const { return count_ == 0; }

  void Insert(Chunk* chunk);
  void Remove(Chunk* chunk);
  // The best chunk of at least `bytes` that was freed at `newest` or before, if it is smaller than `known`, which may
  // be null; else `known`.
  Chunk* Find(size_t bytes, uint64_t newest = UINT64_MAX, Chunk* known = nullptr) const {
    if (count_ == 0 || newest < oldest_ || (known != nullptr && known->bytes == bytes)) return known;
    return Search(bytes, newest, known);
  }
  // Some chunk; null if there is none.
  Chunk* Any() const;

 private:
  static constexpr size_t kBins = 192;
  static constexpr size_t kLeastBytes = 256, kFirst = 4 * 8;
  static size_t BinOf(size_t bytes) {
    const auto exponent = static_cast<size_t>(std::bit_width(std::max(bytes, kLeastBytes))) - 1;
    return std::min(4 * exponent + (bytes >> (exponent - 2) & 3) - kFirst, kBins - 1);
  }
  Chunk* Search(size_t bytes, uint64_t newest, Chunk* known) const;
  size_t NextUsed(size_t bin) const;  // kBins if there is none

  size_t count_ = 0;
  uint64_t oldest_ = UINT64_MAX;  // of all since it was empty
  std::array<uint64_t, kBins / 64> used_{};
  std::array<Chunk*, kBins> heads_{};
};

}  // namespace cudaep::memory
