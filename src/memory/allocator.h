// The allocator contract every source of device or pinned memory keeps.
//
// Threads: every function may be called from any thread. Memory is aligned to 256 bytes.
// Streams: memory allocated on a stream may be used by work queued there afterwards. Freeing says that no *later* work
// uses it; work queued before may still run, so a chunk goes back to its own stream at once and to another one only
// after the two are ordered. Device memory allocated without a stream may have been used by any stream the allocator
// knows (AddStream): once freed it is reused only after all work that these had queued by then. Streams the allocator
// does not know must be done with the memory when it is freed.
// Page-locked memory is read and written by the CPU as well, which no stream orders, so a stream means nothing when it
// is asked for. Who queues a copy says so (UsedOn); once freed, the memory is reused by anybody after those copies, and
// at once if there were none.
// Capture: on a capturing stream nothing is asked of the driver and no other stream is waited for. What a capturing
// stream gets stays with it until ReleaseStream, because a graph may have recorded the address; where no chunk of its
// own is free the answer is kFailedPrecondition.
// Failure: kOutOfMemory with the text of memory/out_of_memory.h; the allocator stays usable.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/status.h"
#include "device/device.h"

namespace cudaep::memory {

inline constexpr size_t kAlignmentBytes = 256;

struct AllocatorStats {
  int64_t bytes_in_use = 0;       // as asked for, rounded up to the alignment
  int64_t peak_bytes_in_use = 0;  // an arena's leaves out what a stream had again from its own cache meanwhile
  int64_t bytes_reserved = 0;     // taken from the driver and not yet given back
  int64_t peak_bytes_reserved = 0;
  int64_t limit_bytes = 0;         // 0: none
  int64_t allocations = 0;         // successful calls of Allocate and AllocateOnStream
  int64_t reserves = 0;            // successful calls of Reserve
  int64_t driver_allocations = 0;  // regions taken from the driver; extensions of an arena
  int64_t driver_frees = 0;
  int64_t shrinks = 0;       // calls of Shrink
  int64_t stream_waits = 0;  // times one stream was made to wait for another for the sake of memory
  int64_t searches = 0;      // requests that no free chunk served at once
  int64_t failures = 0;      // requests that ended with an error
  int64_t largest_allocation_bytes = 0;

  void CountUse(size_t bytes) {
    bytes_in_use += static_cast<int64_t>(bytes);
    peak_bytes_in_use = std::max(peak_bytes_in_use, bytes_in_use);
    CountLargest(bytes);
  }
  void CountLargest(size_t bytes) {
    largest_allocation_bytes = std::max(largest_allocation_bytes, static_cast<int64_t>(bytes));
  }
  void CountFree(size_t bytes) { bytes_in_use -= static_cast<int64_t>(bytes); }
  // From and to the driver.
  void CountTaken(size_t bytes) {
    bytes_reserved += static_cast<int64_t>(bytes);
    peak_bytes_reserved = std::max(peak_bytes_reserved, bytes_reserved);
    ++driver_allocations;
  }
  void CountGiven(size_t bytes) {
    bytes_reserved -= static_cast<int64_t>(bytes);
    ++driver_frees;
  }
};

// A moment in a stream's queue, as one allocator counts: taken before a wait, given back after it (Mark, Reached).
struct StreamMark {
  device::Stream stream = nullptr;
  uint32_t life = 0;    // of the stream in the allocator: handles are reused; 0: it is not known
  uint64_t points = 0;  // memory freed there by then, copies queued
};

// Live memory of one user: the node under whose label it was allocated (memory/allocation_label.h).
struct MemoryUser {
  const char* label = nullptr;  // null: allocated outside any node
  size_t bytes = 0;
  size_t chunks = 0;
};

class Allocator {
 public:
  virtual ~Allocator() = default;

  // `bytes` 0 yields null. Without a stream the memory may be used by any stream at once.
  virtual Result<void*> Allocate(size_t bytes) = 0;
  virtual Result<void*> AllocateOnStream(size_t bytes, device::Stream stream) = 0;
  // Memory for the life of a session (weights), kept apart from what comes and goes.
  virtual Result<void*> Reserve(size_t bytes) = 0;
  // Null is ignored. Anything else must come from this allocator; another pointer is logged and ignored.
  virtual void Free(void* pointer) = 0;

  // A stream that may use memory of this allocator. Known ones are not added twice; AllocateOnStream adds its own.
  virtual void AddStream(device::Stream stream) = 0;
  // The stream is the caller's, who may capture it; only such streams are asked whether they capture.
  virtual void ExpectCaptures(device::Stream stream) { AddStream(stream); }
  // The stream is a graph's own, and is new here. All that it gets from now on stays with it, free or not, and counts
  // as BudgetKind::kGraphs, until ReleaseStream; while it captures, it alone may be given new memory of the driver.
  virtual Status BelongToGraph(device::Stream) {
    return NotSupported("memory of a CUDA graph comes from the arena; this session's allocator is another");
  }
  // The stream is about to be destroyed and its work is done: its chunks become free for every stream.
  virtual void ReleaseStream(device::Stream stream) = 0;
  // The caller is about to wait for the stream, and has waited: what was freed there before the mark is free for every
  // stream. What other threads queue and free meanwhile is not. No driver call.
  virtual StreamMark Mark(device::Stream stream) = 0;
  virtual void Reached(const StreamMark& mark) = 0;

  // Of page-locked memory alone: whether the address lies in memory that is handed out, and that work just queued on
  // the stream uses it.
  virtual bool Owns(const void*) const { return false; }
  virtual void UsedOn(const void*, device::Stream) {}

  // Returns memory without live chunks to the driver, waiting for the work that may still use it, never for anything
  // that is submitted meanwhile. Other threads go on allocating.
  virtual Status Shrink() = 0;
  virtual AllocatorStats Stats() const = 0;
  // Live memory by user, largest first, at most `most` of them.
  virtual std::vector<MemoryUser> LargestUsers(size_t most) const = 0;
};

}  // namespace cudaep::memory
