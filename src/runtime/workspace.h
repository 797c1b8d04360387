// Scratch memory of one stream: blocks that grow and are never moved while the stream lives.
//
// Work on a stream is ordered, so one block serves every operator of the stream in turn. When a larger one is needed
// the old block is kept: queued kernels and captured graphs may still use it. Without a memory limit sizes double, so
// all blocks together stay below twice the largest request; under a limit a block is as large as asked for.
// Ownership: blocks come from the memory's workspace allocator and go back when the workspace ends, after the stream's
// work (the driver waits for it).
// Threads: one thread at a time (the one that runs the stream).
// Failure: kOutOfMemory when not even the bytes asked for are to be had.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "core/status.h"
#include "device/device.h"
#include "memory/device_memory.h"

namespace cudaep {

class Workspace {
 public:
  Workspace(std::shared_ptr<memory::DeviceMemory> memory, device::Stream stream)
      : memory_(std::move(memory)), stream_(stream) {}
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

  // The most a plan should ask for: what is there already, or a quarter of what the memory limit leaves, since tensors
  // need room too. SIZE_MAX without a limit.
  size_t PlanLimit() const;

  // While it lives, plans are made for at most `bytes` or the block that is there: the way on when growing has failed.
  class Ceiling {
   public:
    Ceiling(Workspace& workspace, size_t bytes) : workspace_(workspace) { workspace.ceiling_ = bytes; }
    ~Ceiling() { workspace_.ceiling_ = SIZE_MAX; }
    Ceiling(const Ceiling&) = delete;
    Ceiling& operator=(const Ceiling&) = delete;

   private:
    Workspace& workspace_;
  };

 private:
  Result<void*> Grow(size_t bytes);

  const std::shared_ptr<memory::DeviceMemory> memory_;
  const device::Stream stream_;
  void* block_ = nullptr;
  size_t bytes_ = 0;
  size_t ceiling_ = SIZE_MAX;
  std::vector<void*> blocks_;
};

}  // namespace cudaep
