#include "memory/stream_ordered_allocator.h"

#include <algorithm>
#include <bit>

#include "core/checked_math.h"

namespace cudaep::memory {
namespace {

// Up to a step of an eighth of the size, at least the alignment.
size_t RoundUp(size_t bytes) {
  const size_t step = std::max(kAlignmentBytes, std::bit_floor(bytes) / 8);
  return AlignUp(bytes, step);
}

}  // namespace

StreamOrderedAllocator::~StreamOrderedAllocator() {
  for (auto& [pointer, chunk] : chunks_) source_.Give(pointer).IgnoreError();
}

Result<void*> StreamOrderedAllocator::TakeFromDriver(size_t bytes) {
  const bool over = limit_bytes_ != 0 && static_cast<size_t>(stats_.bytes_reserved) + bytes > limit_bytes_;
  void* pointer = nullptr;
  Status status = over ? OutOfMemory("limit reached") : source_.Take(&pointer, bytes);
  if (status.code() == StatusCode::kOutOfMemory) {
    GiveBackIdle();
    const bool still_over = limit_bytes_ != 0 && static_cast<size_t>(stats_.bytes_reserved) + bytes > limit_bytes_;
    if (!still_over) status = source_.Take(&pointer, bytes);
  }
  if (!status.ok()) {
    if (status.code() != StatusCode::kOutOfMemory) return status;
    return OutOfMemory("allocation of ", bytes, " bytes failed: ", stats_.bytes_in_use, " in use, ",
                       stats_.bytes_reserved, " taken from the driver, limit ",
                       limit_bytes_ == 0 ? std::string("none") : std::to_string(limit_bytes_));
  }
  stats_.bytes_reserved += static_cast<int64_t>(bytes);
  ++stats_.driver_allocations;
  return pointer;
}

void StreamOrderedAllocator::Count(size_t bytes) {
  stats_.bytes_in_use += static_cast<int64_t>(bytes);
  stats_.peak_bytes_in_use = std::max(stats_.peak_bytes_in_use, stats_.bytes_in_use);
  stats_.largest_allocation_bytes = std::max(stats_.largest_allocation_bytes, static_cast<int64_t>(bytes));
}

Result<void*> StreamOrderedAllocator::Untagged(size_t bytes) {
  if (bytes == 0) return nullptr;
  if (bytes > SIZE_MAX / 2) return OutOfMemory("allocation of ", bytes, " bytes is impossible");
  const size_t size = RoundUp(bytes);
  CUDAEP_ASSIGN_OR_RETURN(void* pointer, TakeFromDriver(size));
  chunks_[pointer] = Chunk{.bytes = size};
  Count(size);
  return pointer;
}

Result<void*> StreamOrderedAllocator::Allocate(size_t bytes) {
  std::lock_guard lock(mutex_);
  Result<void*> pointer = Untagged(bytes);
  if (pointer.ok()) ++stats_.allocations;
  return pointer;
}

Result<void*> StreamOrderedAllocator::Reserve(size_t bytes) {
  std::lock_guard lock(mutex_);
  Result<void*> pointer = Untagged(bytes);
  if (pointer.ok()) ++stats_.reserves;
  return pointer;
}

void* StreamOrderedAllocator::PopFree(FreeLists::iterator list) {
  if (list == free_.end() || list->second.empty()) return nullptr;
  void* pointer = list->second.back();
  list->second.pop_back();
  return pointer;
}

Result<void*> StreamOrderedAllocator::AllocateOnStream(size_t bytes, device::Stream stream) {
  if (bytes == 0) return nullptr;
  if (bytes > SIZE_MAX / 2) return OutOfMemory("allocation of ", bytes, " bytes is impossible");
  const size_t size = RoundUp(bytes);
  std::lock_guard lock(mutex_);
  void* pointer = PopFree(free_.find({stream, size}));
  if (pointer == nullptr) pointer = PopFree(free_.find({nullptr, size}));
  if (pointer == nullptr) {
    CUDAEP_ASSIGN_OR_RETURN(pointer, TakeFromDriver(size));
  }
  chunks_[pointer] = Chunk{.bytes = size, .stream = stream, .tagged = true};
  ++stats_.allocations;
  Count(size);
  return pointer;
}

void StreamOrderedAllocator::Free(void* pointer) {
  if (pointer == nullptr) return;
  std::lock_guard lock(mutex_);
  const auto found = chunks_.find(pointer);
  if (found == chunks_.end()) return;
  const Chunk chunk = found->second;
  stats_.bytes_in_use -= static_cast<int64_t>(chunk.bytes);
  if (chunk.tagged) {
    free_[{chunk.stream, chunk.bytes}].push_back(pointer);
    return;
  }
  chunks_.erase(found);
  stats_.bytes_reserved -= static_cast<int64_t>(chunk.bytes);
  source_.Give(pointer).IgnoreError();
}

void StreamOrderedAllocator::ReleaseStream(device::Stream stream) {
  std::lock_guard lock(mutex_);
  for (auto list = free_.lower_bound({stream, 0}); list != free_.end() && list->first.first == stream;) {
    for (void* pointer : list->second) {
      chunks_[pointer].stream = nullptr;
      free_[{nullptr, list->first.second}].push_back(pointer);
    }
    list = free_.erase(list);
  }
  // Live chunks outlast their stream (a session's outputs); once freed they belong to nobody.
  for (auto& [pointer, chunk] : chunks_) {
    if (chunk.tagged && chunk.stream == stream) chunk.stream = nullptr;
  }
}

// Everything free goes back; the driver waits for the device where work may still use it.
void StreamOrderedAllocator::GiveBackIdle() {
  for (auto& [key, list] : free_) {
    for (void* pointer : list) {
      stats_.bytes_reserved -= static_cast<int64_t>(key.second);
      chunks_.erase(pointer);
      source_.Give(pointer).IgnoreError();
    }
  }
  free_.clear();
}

Status StreamOrderedAllocator::Shrink() {
  std::lock_guard lock(mutex_);
  ++stats_.shrinks;
  GiveBackIdle();
  return Status::Ok();
}

AllocatorStats StreamOrderedAllocator::Stats() const {
  std::lock_guard lock(mutex_);
  AllocatorStats stats = stats_;
  stats.limit_bytes = static_cast<int64_t>(limit_bytes_);
  return stats;
}

}  // namespace cudaep::memory
