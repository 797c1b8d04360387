// Scratch memory of one stream: blocks that grow and are never moved while the stream lives.
//
// Work on a stream is ordered, so one block serves every operator of the stream in turn. When a larger one is needed
// the old block is kept: queued kernels and captured graphs may still use it. Sizes double, so all blocks together
// stay below twice the largest request.
// Threads: one thread at a time (the one that runs the stream).
#pragma once

#include <cstddef>
#include <vector>

#include "core/status.h"
#include "device/device.h"

namespace cudaep {

class Workspace {
 public:
  explicit Workspace(device::Stream stream) : stream_(stream) {}
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // A block of at least `bytes`, aligned to 256 bytes; null for 0. Allocates only when the stream never needed this
  // much; in that case a capturing stream gets kFailedPrecondition: one Run before the capture sizes the workspace.
  Result<void*> Reserve(size_t bytes) {
    if (bytes <= bytes_) [[likely]]
      return bytes == 0 ? nullptr : block_;
    return Grow(bytes);
  }

 private:
  Result<void*> Grow(size_t bytes);

  device::Stream stream_;
  void* block_ = nullptr;
  size_t bytes_ = 0;
  std::vector<device::UniqueDeviceMemory> blocks_;
};

}  // namespace cudaep
