#include "memory/arena/stream_cache.h"

#include <bit>

#include "memory/allocation_label.h"
#include "memory/allocator.h"

namespace cudaep::memory {
namespace {

Chunk* PopFrom(Chunk** list) {
  Chunk* const chunk = *list;
  *list = chunk->bin_after;
  chunk->bin_after = nullptr;
  return chunk;
}

void PushTo(Chunk** list, Chunk* chunk) {
  chunk->bin_after = *list;
  *list = chunk;
}

}  // namespace

void StreamCache::Open(device::Stream stream, uint32_t generation) {
  std::lock_guard lock(lock_);
  stream_ = stream;
  generation_ = generation;
  open_ = true;
  sizes_ = {};
  used_ = {};
}

Chunk* StreamCache::Close() {
  std::lock_guard lock(lock_);
  open_ = false;
  return PopAllLocked();
}

// Where `bytes` are kept, or could be: a vacant entry, or one without chunks. Null: there is no room.
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
  if (!open_ || stream_ != stream) return nullptr;
  Size* const size = Find(bytes);
  if (size == nullptr) return nullptr;
  if (size->bytes != bytes) {
    *size = {.bytes = bytes};
    const auto at = static_cast<size_t>(size - sizes_.data());
    used_[at / 64] |= uint64_t{1} << (at % 64);
  }
  ++size->requests;
  if (size->first == nullptr) return nullptr;
  Chunk* const chunk = PopFrom(&size->first);
  chunk->cached = false;
  chunk->label = CurrentLabel();
  --held_;
  ++hits_;
  CountHeld(held_bytes() - chunk->requested);
  return chunk;
}

StreamCache::Answer StreamCache::Push(Chunk* chunk) {
  std::lock_guard lock(lock_);
  if (chunk->cached) return Answer::kTwice;
  chunk->stamp = CountFreeLocked();
  if (!open_ || chunk->generation != generation_) return Answer::kRefused;
  Size* const size = Find(chunk->requested);
  if (size == nullptr || size->bytes != chunk->requested) return Answer::kRefused;
  if (size->requests < 2 && !size->repeats) return Answer::kRefused;
  chunk->cached = true;
  chunk->label = nullptr;
  PushTo(&size->first, chunk);
  ++held_;
  CountHeld(held_bytes() + chunk->requested);
  return Answer::kTaken;
}

Chunk* StreamCache::Idle() {
  std::lock_guard lock(lock_);
  Chunk* const all = PopAllLocked();
  for (size_t word = 0; word < used_.size(); ++word) {
    for (uint64_t bits = used_[word]; bits != 0; bits &= bits - 1) {
      Size& size = sizes_[word * 64 + static_cast<size_t>(std::countr_zero(bits))];
      size.repeats = size.requests > 1;
      if (!size.repeats) {
        size = {};
        used_[word] &= ~(bits & -bits);
      }
      size.requests = 0;
    }
  }
  return all;
}

Chunk* StreamCache::PopAll() {
  std::lock_guard lock(lock_);
  return PopAllLocked();
}

Chunk* StreamCache::PopAllLocked() {
  CountHeld(0);
  Chunk* all = nullptr;
  for (size_t word = 0; word < used_.size() && held_ != 0; ++word) {
    for (uint64_t bits = used_[word]; bits != 0; bits &= bits - 1) {
      Size& size = sizes_[word * 64 + static_cast<size_t>(std::countr_zero(bits))];
      for (; size.first != nullptr; --held_) {
        Chunk* const chunk = PopFrom(&size.first);
        chunk->cached = false;
        PushTo(&all, chunk);
      }
    }
  }
  return all;
}

uint64_t StreamCache::CountFree() {
  std::lock_guard lock(lock_);
  return CountFreeLocked();
}

uint64_t StreamCache::CountFreeLocked() {
  const uint64_t freed = freed_.load(std::memory_order_relaxed) + 1;
  freed_.store(freed, std::memory_order_release);
  return freed;
}

int64_t StreamCache::hits() const {
  std::lock_guard lock(lock_);
  return hits_;
}

}  // namespace cudaep::memory
