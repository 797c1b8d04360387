#include "memory/arena/stream_cache.h"

#include "memory/allocation_label.h"
#include "memory/allocator.h"

namespace cudaep::memory {

void StreamCache::Open(device::Stream stream, uint32_t life) {
  std::lock_guard lock(lock_);
  stream_ = stream;
  life_ = life;
  sizes_ = {};
}

Chunk* StreamCache::Close() {
  std::lock_guard lock(lock_);
  life_ = 0;
  return PopAllLocked();
}

// Where `bytes` are kept, or could be: an entry without chunks. Null: there is no room.
StreamCache::Size* StreamCache::Find(size_t bytes) {
  const size_t home = (bytes / kAlignmentBytes) * 0x9e3779b97f4a7c15u >> 32;
  Size* room = nullptr;
  for (size_t i = 0; i < kProbes; ++i) {
    Size& size = sizes_[(home + i) % kSizes];
    if (size.bytes == bytes) return &size;
    if (size.first == nullptr && (room == nullptr || size.requests < room->requests)) room = &size;
  }
  return room;
}

Chunk* StreamCache::Pop(device::Stream stream, size_t bytes) {
  std::lock_guard lock(lock_);
  if (life_ == 0 || stream_ != stream) return nullptr;
  Size* const size = Find(bytes);
  if (size == nullptr) return nullptr;
  if (size->bytes != bytes) *size = {.bytes = bytes};
  ++size->requests;
  Chunk* const chunk = size->first;
  if (chunk == nullptr) return nullptr;
  size->first = chunk->bin_after;
  chunk->bin_after = nullptr;
  chunk->cached = false;
  chunk->label = CurrentLabel();
  ++hits_;
  held_bytes_.store(held_bytes() - chunk->requested, std::memory_order_relaxed);
  return chunk;
}

StreamCache::Answer StreamCache::Push(Chunk* chunk) {
  std::lock_guard lock(lock_);
  if (chunk->cached) return Answer::kTwice;
  if (life_ == 0 || chunk->life != life_) return Answer::kRefused;
  Size* const size = Find(chunk->requested);
  if (size == nullptr || size->bytes != chunk->requested) return Answer::kRefused;
  if (size->requests < 2 && !size->repeats) return Answer::kRefused;
  chunk->stamp = counter_.NextLocked();
  chunk->cached = true;
  chunk->label = nullptr;
  chunk->bin_after = size->first;
  size->first = chunk;
  held_bytes_.store(held_bytes() + chunk->requested, std::memory_order_relaxed);
  return Answer::kTaken;
}

Chunk* StreamCache::Idle() {
  std::lock_guard lock(lock_);
  Chunk* const all = PopAllLocked();
  for (Size& size : sizes_) {
    const size_t kept = size.requests > 1 ? size.bytes : 0;
    size = {.bytes = kept, .repeats = kept != 0};
  }
  return all;
}

Chunk* StreamCache::PopAll() {
  std::lock_guard lock(lock_);
  return PopAllLocked();
}

Chunk* StreamCache::PopAllLocked() {
  Chunk* all = nullptr;
  if (held_bytes() == 0) return all;
  held_bytes_.store(0, std::memory_order_relaxed);
  for (Size& size : sizes_) {
    while (Chunk* const chunk = size.first) {
      size.first = chunk->bin_after;
      chunk->cached = false;
      chunk->bin_after = all;
      all = chunk;
    }
  }
  return all;
}

int64_t StreamCache::hits() const {
  std::lock_guard lock(lock_);
  return hits_;
}

}  // namespace cudaep::memory
