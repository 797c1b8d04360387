// How the arena gives memory back, and how it waits for what streams freed.
#include "core/checked_math.h"
#include "memory/arena/arena.h"
#include "memory/relaxed_capture.h"

namespace cudaep::memory {

// Blocks, without the lock, until all that was freed is done; streams that capture keep theirs.
void Arena::WaitForEverything(std::unique_lock<SpinLock>* lock) {
  device::DeviceGuard guard(source_.ordinal);
  RelaxedCapture relaxed;
  TakeBackAll();
  MarkPending();
  const std::vector<StreamProgress::SharedEvent> pending = progress_.Pending();
  lock->unlock();
  StreamProgress::Wait(pending).IgnoreError();
  lock->lock();
  TakeBackAll();
  Poll();
  Sweep();
}

// The end of the region that grows goes back as far as it is nobody's.
void Arena::TrimTail() {
  size_t given = 0, end = 0;
  while (!heap_.regions().empty()) {
    Chunk* const last = heap_.LastOf(0);
    end = heap_.regions()[0].bytes;
    if (last->hole) {
      heap_.DropLast(0);
      continue;
    }
    if (!last->free || last->owner != kNobody) break;
    const size_t begin = end - last->bytes, kept_end = AlignUp(begin, kStepBytes);
    if (kept_end == end) break;
    BinsOf(*last).Remove(last);
    given += end - kept_end;
    end = kept_end;
    heap_.DropLast(0, kept_end - begin);
    if (kept_end == begin) continue;
    BinsOf(*last).Insert(last);
    break;
  }
  if (heap_.regions().empty()) end = 0;
  device::GrowableTrim(growable_.get(), end).IgnoreError();
  if (given == 0) return;
  region_bytes_ -= given;
  stats_.CountGiven(given);
  source_.Release(given);
}

// Regions that are one chunk of nobody's; they are the arena's no more.
std::vector<ChunkHeap::Region> Arena::TakeIdleRegions() {
  std::vector<ChunkHeap::Region> idle;
  if (CanGrow()) {
    TrimTail();
    return idle;
  }
  for (const ChunkHeap::Region& region : heap_.regions()) {
    const Chunk& chunk = *region.first;
    if (chunk.free && chunk.owner == kNobody && chunk.bytes == region.bytes) idle.push_back(region);
  }
  for (const ChunkHeap::Region& region : idle) {
    streams_[kNobody].bins.Remove(region.first);
    heap_.RemoveRegion(region);
    region_bytes_ -= region.bytes;
    stats_.CountGiven(region.bytes);
  }
  return idle;
}

void Arena::Give(const std::vector<ChunkHeap::Region>& regions) const {
  for (const ChunkHeap::Region& region : regions) source_.Give(region.data, region.bytes).IgnoreError();
}

Status Arena::Shrink() {
  device::DeviceGuard guard(source_.ordinal);
  CUDAEP_RETURN_IF_ERROR(guard.status());
  RelaxedCapture relaxed;
  std::vector<StreamProgress::SharedEvent> pending;
  {
    std::lock_guard lock(mutex_);
    ++stats_.shrinks;
    TakeBackAll();
    MarkPending();
    pending = progress_.Pending();
  }
  CUDAEP_RETURN_IF_ERROR(StreamProgress::Wait(pending));
  std::vector<ChunkHeap::Region> idle;
  {
    std::lock_guard lock(mutex_);
    TakeBackAll();
    Poll();
    Sweep();
    idle = TakeIdleRegions();
    use_.ResetRecentPeak();
    shrunk_ = true;
  }
  Give(idle);
  return Status::Ok();
}

}  // namespace cudaep::memory
