// The allocator contract every source of device or pinned memory keeps.
//
// Threads: every function may be called from any thread. Memory is aligned to 256 bytes.
// Streams: memory allocated on a stream may be used by work queued there afterwards. Freeing says that no *later* work
// uses it; work queued before may still run, so a chunk goes back to its own stream at once and to another one only
// after the two are ordered.
// Failure: kOutOfMemory naming the bytes asked for, in use and limit; the allocator stays usable.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/status.h"
#include "device/device.h"

namespace cudaep::memory {

inline constexpr size_t kAlignmentBytes = 256;

struct AllocatorStats {
  int64_t bytes_in_use = 0;
  int64_t peak_bytes_in_use = 0;
  int64_t bytes_reserved = 0;  // taken from the driver
  int64_t limit_bytes = 0;     // 0: none
  int64_t allocations = 0;     // successful calls of Allocate
  int64_t reserves = 0;        // successful calls of Reserve
  int64_t driver_allocations = 0;
  int64_t shrinks = 0;  // calls of Shrink
  int64_t largest_allocation_bytes = 0;
};

class Allocator {
 public:
  virtual ~Allocator() = default;

  // `bytes` 0 yields null. Without a stream the memory may be used by any stream at once.
  virtual Result<void*> Allocate(size_t bytes) = 0;
  virtual Result<void*> AllocateOnStream(size_t bytes, device::Stream stream) = 0;
  // Memory for the life of a session (weights), kept apart from what comes and goes.
  virtual Result<void*> Reserve(size_t bytes) = 0;
  // Null is ignored. Anything else must come from this allocator.
  virtual void Free(void* pointer) = 0;
  // The stream is about to be destroyed and its work is done: its chunks become free for every stream.
  virtual void ReleaseStream(device::Stream stream) = 0;
  // Returns memory without live chunks to the driver.
  virtual Status Shrink() = 0;
  virtual AllocatorStats Stats() const = 0;
};

}  // namespace cudaep::memory
