// The counters of one stream by which the blocks of a kernel find out which of them comes last.
//
// They are zero between kernels: a kernel that counts puts back to zero what it has used, so no launch has to clear
// them. Nobody else writes this memory; the stream's scratch blocks change hands between operators and would not do.
// Ownership: memory from the workspace allocator, given back with the context after the stream's work.
// Threads: one thread at a time (the one that runs the stream).
#pragma once

#include <memory>

#include "core/status.h"
#include "device/device.h"
#include "memory/device_memory.h"

namespace cudaep {

class Tickets {
 public:
  static constexpr int kCount = 4096;

  Tickets(std::shared_ptr<memory::DeviceMemory> memory, device::Stream stream)
      : memory_(std::move(memory)), stream_(stream) {}
  ~Tickets();
  Tickets(const Tickets&) = delete;
  Tickets& operator=(const Tickets&) = delete;

  // Uses the counters that `other` has by now, as long as those live. What uses either runs on the other's stream.
  void Share(const Tickets& other) {
    counters_ = other.counters_;
    is_shared_ = true;
  }

  // kCount counters. The first call allocates them, so whoever plans a kernel that counts makes it. A stream that runs
  // a plan which was made on another one gets its counters in its first Enqueue, as it gets its scratch memory then. On
  // a capturing stream the first call is kFailedPrecondition.
  Result<unsigned*> Get() {
    if (counters_ == nullptr) [[unlikely]]
      CUDAEP_RETURN_IF_ERROR(Create());
    return counters_;
  }

 private:
  Status Create();

  const std::shared_ptr<memory::DeviceMemory> memory_;
  const device::Stream stream_;
  unsigned* counters_ = nullptr;
  bool is_shared_ = false;
};

}  // namespace cudaep
