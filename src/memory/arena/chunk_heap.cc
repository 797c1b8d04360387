#include "memory/arena/chunk_heap.h"

#include <algorithm>

namespace cudaep::memory {
namespace {

constexpr size_t kRecordsPerBlock = 64;

}  // namespace

// Its contents are left over from its last use.
Chunk* ChunkHeap::NewRecord() {
  if (spare_ == nullptr) {
    blocks_.push_back(std::make_unique<Chunk[]>(kRecordsPerBlock));
    for (size_t i = 0; i < kRecordsPerBlock; ++i) {
      blocks_.back()[i].after = spare_;
      spare_ = &blocks_.back()[i];
    }
  }
  Chunk* const record = spare_;
  spare_ = record->after;
  return record;
}

Chunk* ChunkHeap::AddRegion(void* data, size_t bytes) {
  Chunk* const chunk = NewRecord();
  *chunk = {};
  chunk->data = static_cast<char*>(data);
  chunk->bytes = bytes;
  regions_.push_back({chunk->data, bytes, chunk});
  return chunk;
}

Chunk* ChunkHeap::LastOf(size_t index) const {
  Chunk* chunk = regions_[index].first;
  while (chunk->after != nullptr) chunk = chunk->after;
  return chunk;
}

Chunk* ChunkHeap::ExtendRegion(size_t index, size_t bytes) {
  Region& region = regions_[index];
  Chunk* const last = LastOf(index);
  Chunk* const chunk = NewRecord();
  *chunk = {};
  chunk->data = region.data + region.bytes;
  chunk->bytes = bytes;
  chunk->before = last;
  last->after = chunk;
  region.bytes += bytes;
  return chunk;
}

void ChunkHeap::DropLast(size_t index, size_t kept) {
  Region& region = regions_[index];
  Chunk* const last = LastOf(index);
  region.bytes -= last->bytes - kept;
  last->bytes = kept;
  if (kept != 0) return;
  if (last->before != nullptr) last->before->after = nullptr;
  last->after = spare_;
  spare_ = last;
  if (region.bytes == 0) regions_.erase(regions_.begin() + static_cast<ptrdiff_t>(index));
}

void ChunkHeap::RemoveRegion(const Region& region) {
  region.first->after = spare_;
  spare_ = region.first;
  const char* const data = region.data;
  std::erase_if(regions_, [data](const Region& other) { return other.data == data; });
}

Chunk* ChunkHeap::Split(Chunk* chunk, size_t bytes) {
  Chunk* const rest = NewRecord();
  *rest = *chunk;
  rest->bin_before = rest->bin_after = nullptr;
  rest->data += bytes;
  rest->bytes -= bytes;
  rest->before = chunk;
  if (rest->after != nullptr) rest->after->before = rest;
  chunk->after = rest;
  chunk->bytes = bytes;
  return rest;
}

void ChunkHeap::MoveBoundary(Chunk* chunk, size_t bytes) {
  Chunk* const next = chunk->after;
  next->bytes = chunk->bytes + next->bytes - bytes;
  chunk->bytes = bytes;
  next->data = chunk->data + bytes;
}

void ChunkHeap::MergeAfter(Chunk* chunk) {
  Chunk* const gone = chunk->after;
  chunk->bytes += gone->bytes;
  chunk->stamp = std::max(chunk->stamp, gone->stamp);
  chunk->after = gone->after;
  if (chunk->after != nullptr) chunk->after->before = chunk;
  gone->after = spare_;
  spare_ = gone;
}

}  // namespace cudaep::memory
