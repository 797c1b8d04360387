#include "memory/arena/chunk_heap.h"

#include <algorithm>

namespace cudaep::memory {
// Its contents are left over from its last use.
Chunk* ChunkHeap::NewRecord() {
  if (spare_ == nullptr) return &records_.emplace_back();
  Chunk* const record = spare_;
  spare_ = record->after;
  return record;
}

void ChunkHeap::Recycle(Chunk* record) {
  record->after = spare_;
  spare_ = record;
}

size_t ChunkHeap::RegionFrom(const std::vector<Region>& regions, const char* address) {
  const auto found = std::upper_bound(regions.begin(), regions.end(), address,
                                      [](const char* at, const Region& region) { return at < region.end(); });
  return static_cast<size_t>(found - regions.begin());
}

Chunk* ChunkHeap::FindLiveAround(const void* address) const {
  if (Chunk* const chunk = FindLive(address)) return chunk;
  const auto* const at = static_cast<const char*>(address);
  const size_t index = RegionFrom(regions_, at);
  if (index == regions_.size() || at < regions_[index].data) return nullptr;
  const Chunk* chunk = regions_[index].first;
  while (at >= chunk->data + chunk->bytes) chunk = chunk->after;
  return FindLive(chunk->data);
}

Chunk* ChunkHeap::AddRegion(void* data, size_t bytes) {
  Chunk* const chunk = NewRecord();
  *chunk = {};
  chunk->data = static_cast<char*>(data);
  chunk->bytes = bytes;
  regions_.insert(RegionFrom(chunk->data), {chunk->data, bytes, chunk, chunk});
  return chunk;
}

Chunk* ChunkHeap::AddAdjoining(void* data, size_t bytes) {
  Chunk* const chunk = AddRegion(data, bytes);
  const auto join = [](Region* lower, const Region& upper) {
    lower->last->after = upper.first;
    upper.first->before = lower->last;
    lower->last = upper.last;
    lower->bytes += upper.bytes;
  };
  auto region = RegionFrom(chunk->data);
  if (const auto next = region + 1; next != regions_.end() && next->data == region->end()) {
    join(&*region, *next);
    regions_.erase(next);
  }
  if (region != regions_.begin() && (region - 1)->end() == region->data) {
    join(&*(region - 1), *region);
    regions_.erase(region);
  }
  return chunk;
}

void ChunkHeap::CutOut(Chunk* chunk) {
  const auto region = RegionFrom(chunk->data);
  char* const end = region->end();
  const Region rest{chunk->data + chunk->bytes, static_cast<size_t>(end - chunk->data) - chunk->bytes, chunk->after,
                    region->last};
  region->bytes = static_cast<size_t>(chunk->data - region->data);
  region->last = chunk->before;
  if (chunk->before != nullptr) chunk->before->after = nullptr;
  if (chunk->after != nullptr) chunk->after->before = nullptr;
  if (region->bytes == 0 && rest.bytes == 0) {
    regions_.erase(region);
  } else if (region->bytes == 0) {
    *region = rest;
  } else if (rest.bytes != 0) {
    regions_.insert(region + 1, rest);
  }
  Recycle(chunk);
}

Chunk* ChunkHeap::Split(Chunk* chunk, size_t bytes) {
  Chunk* const rest = NewRecord();
  *rest = *chunk;
  rest->bin_before = rest->bin_after = nullptr;
  rest->data += bytes;
  rest->bytes -= bytes;
  rest->before = chunk;
  if (rest->after != nullptr) {
    rest->after->before = rest;
  } else {
    RegionFrom(chunk->data)->last = rest;
  }
  chunk->after = rest;
  chunk->bytes = bytes;
  return rest;
}

void ChunkHeap::MergeAfter(Chunk* chunk) {
  Chunk* const gone = chunk->after;
  chunk->bytes += gone->bytes;
  chunk->stamp = std::max(chunk->stamp, gone->stamp);
  chunk->after = gone->after;
  if (chunk->after != nullptr) {
    chunk->after->before = chunk;
  } else {
    RegionFrom(chunk->data)->last = chunk;
  }
  Recycle(gone);
}

}  // namespace cudaep::memory
