// How the arena gives memory back, and how it waits for what streams freed.
#include "core/checked_math.h"
#include "memory/arena/arena.h"
#include "memory/relaxed_capture.h"

namespace cudaep::memory {

// Blocks, without the lock, until all that was freed is done; streams that capture keep theirs.
void Arena::WaitForEverything(Lock* lock) {
  device::DeviceGuard guard(source_.ordinal);
  RelaxedCapture relaxed;
  EmptyCaches();
  MarkPending();
  const std::vector<StreamProgress::SharedEvent> pending = progress_.Pending();
  lock->unlock();
  StreamProgress::Wait(pending).IgnoreError();
  lock->lock();
  EmptyCaches();
  Poll();
  Sweep();
}

// Unmaps whole steps of nobody's free memory, the highest first, until `most` bytes are given back; not those of
// `kept`. The addresses are mapped again when something fits there.
void Arena::UnmapIdle(size_t most, const Chunk* kept) {
  std::vector<Chunk*> idle;
  for (const ChunkHeap::Region& region : heap_.regions()) {
    for (Chunk* chunk = region.first; chunk != nullptr; chunk = chunk->after) {
      if (chunk->free && chunk->owner == kNobody && chunk != kept) idle.push_back(chunk);
    }
  }
  size_t given = 0;
  for (auto next = idle.rbegin(); next != idle.rend() && given < most; ++next) {
    Chunk* const chunk = *next;
    const size_t begin = OffsetOf(chunk->data), end = (begin + chunk->bytes) / kStepBytes * kStepBytes;
    size_t first = AlignUp(begin, kStepBytes);
    if (first >= end) continue;
    if (end - first > most - given) first = end - AlignUp(most - given, kStepBytes);
    if (!device::GrowableUnmap(growable_.get(), first, end - first).ok()) break;
    given += end - first;
    BinsOf(*chunk).Remove(chunk);
    Chunk* unmapped = chunk;
    if (first > begin) {
      unmapped = heap_.Split(chunk, first - begin);
      BinsOf(*chunk).Insert(chunk);
    }
    if (unmapped->bytes > end - first) {
      Chunk* const rest = heap_.Split(unmapped, end - first);
      BinsOf(*rest).Insert(rest);
    }
    heap_.CutOut(unmapped);
  }
  if (given == 0) return;
  region_bytes_ -= given;
  stats_.CountGiven(given);
  source_.Release(given);
}

// Regions that are one chunk of nobody's; they are the arena's no more.
std::vector<ChunkHeap::Region> Arena::PopIdleRegions() {
  std::vector<ChunkHeap::Region> idle;
  for (const ChunkHeap::Region& region : heap_.regions()) {
    const Chunk& chunk = *region.first;
    if (chunk.free && chunk.owner == kNobody && chunk.bytes == region.bytes) idle.push_back(region);
  }
  for (const ChunkHeap::Region& region : idle) {
    BinsOf(*region.first).Remove(region.first);
    heap_.CutOut(region.first);
    region_bytes_ -= region.bytes;
    stats_.CountGiven(region.bytes);
  }
  return idle;
}

// What is nobody's goes back to the driver: of one region `most` bytes but for the chunk `kept`, of several all.
void Arena::ReturnIdle(Lock* lock, size_t most, const Chunk* kept) {
  if (CanGrow()) return UnmapIdle(most, kept);
  const std::vector<ChunkHeap::Region> idle = PopIdleRegions();
  if (idle.empty()) return;
  lock->unlock();  // the driver waits for the device
  for (const ChunkHeap::Region& region : idle) source_.Return(region.data, region.bytes).IgnoreError();
  lock->lock();
}

Status Arena::Shrink() {
  device::DeviceGuard guard(source_.ordinal);
  CUDAEP_RETURN_IF_ERROR(guard.status());
  RelaxedCapture relaxed;
  std::vector<StreamProgress::SharedEvent> pending;
  {
    std::lock_guard lock(mutex_);
    ++stats_.shrinks;
    EmptyCaches();
    MarkPending();
    pending = progress_.Pending();
  }
  CUDAEP_RETURN_IF_ERROR(StreamProgress::Wait(pending));
  Lock lock(mutex_);
  EmptyCaches();
  Poll();
  Sweep();
  recent_peak_ = InUse();
  shrunk_ = true;
  ReturnIdle(&lock, SIZE_MAX, nullptr);
  return Status::Ok();
}

}  // namespace cudaep::memory
