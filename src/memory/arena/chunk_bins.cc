#include "memory/arena/chunk_bins.h"

#include <algorithm>
#include <bit>

namespace cudaep::memory {
namespace {

// Most chunks of one bin that a search looks at, the most recently freed ones.
constexpr int kSearchDepth = 64;

}  // namespace

size_t ChunkBins::NextUsed(size_t bin) const {
  for (size_t word = bin / 64; word < used_.size(); ++word) {
    const uint64_t bits = word == bin / 64 ? used_[word] & ~uint64_t{0} << (bin % 64) : used_[word];
    if (bits != 0) return word * 64 + static_cast<size_t>(std::countr_zero(bits));
  }
  return kBins;
}

void ChunkBins::Insert(Chunk* chunk) {
  const size_t bin = BinOf(chunk->bytes);
  chunk->free = true;
  chunk->bin_before = nullptr;
  chunk->bin_after = heads_[bin];
  if (heads_[bin] != nullptr) heads_[bin]->bin_before = chunk;
  heads_[bin] = chunk;
  used_[bin / 64] |= uint64_t{1} << (bin % 64);
  ++count_;
  oldest_ = std::min(oldest_, chunk->stamp);
}

void ChunkBins::Remove(Chunk* chunk) {
  const size_t bin = BinOf(chunk->bytes);
  chunk->free = false;
  if (chunk->bin_after != nullptr) chunk->bin_after->bin_before = chunk->bin_before;
  if (chunk->bin_before != nullptr) {
    chunk->bin_before->bin_after = chunk->bin_after;
  } else {
    heads_[bin] = chunk->bin_after;
    if (heads_[bin] == nullptr) used_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
  }
  chunk->bin_before = chunk->bin_after = nullptr;
  if (--count_ == 0) oldest_ = UINT64_MAX;
}

Chunk* ChunkBins::Search(size_t bytes, uint64_t newest, Chunk* known) const {
  const size_t last = known != nullptr ? BinOf(known->bytes) : kBins - 1;
  for (size_t bin = NextUsed(BinOf(bytes)); bin <= last; bin = NextUsed(bin + 1)) {
    Chunk* best = known;
    int depth = kSearchDepth;
    for (Chunk* chunk = heads_[bin]; chunk != nullptr && depth > 0; chunk = chunk->bin_after, --depth) {
      if (chunk->bytes < bytes || chunk->stamp > newest) continue;
      if (best == nullptr || chunk->bytes < best->bytes) best = chunk;
      if (best->bytes == bytes) break;
    }
    if (best != known) return best;
  }
  return known;
}

Chunk* ChunkBins::Any() const {
  const size_t bin = NextUsed(0);
  return bin < kBins ? heads_[bin] : nullptr;
}

}  // namespace cudaep::memory
