// Stands for an allocator of the caller's, as PyTorch's: C functions over blocks of device::Malloc that are reused at
// once and in the order of one stream, so that whoever uses them elsewhere without an order is found out.
#pragma once

#include <functional>

#include "../device/device_fixture.h"
#include "memory/blocks/external_allocator.h"

namespace cudaep::memory::testing {

class CallerMemory {
 public:
  enum class Failure : uint8_t {
    kNone,
    kNull,
    kThrow,
    kThrowInt,
    kMisaligned,
    kHostMemory,
    kThrowFromFree,
    kThrowFromEmpty,
  };

  // Forgets everything; `stream` is the caller's current one.
  static void Reset(device::Stream stream);
  static ExternalCallbacks Callbacks();
  static void* Alloc(size_t bytes);
  static void Free(void* pointer);

  // The next `count` calls that can fail in this way do.
  static void FailNext(Failure failure, size_t count);
  // Called at the start of each Alloc.
  static void OnAlloc(std::function<void()> call);

  static size_t allocs();  // successful calls
  static size_t frees();
  static size_t empties();
  static size_t outstanding();  // blocks given and not yet taken back
  static size_t strangers();    // frees of what is not outstanding
};

}  // namespace cudaep::memory::testing
