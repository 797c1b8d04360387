// The static `__shared__` arrays of all kernels: one range of the library, put together by cmake/shared_memory.ld.
//
// Between blocks the range holds NaN patterns, so that a block never sees what another one left. To do that at the cost
// of what a kernel really uses, the range is searched after the first block of each new shape of launch, and where the
// first block of each new launch waits for its predecessor; later only what was ever found written is overwritten.
//
// Threads: the executor's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "device/sim/kernel_call.h"

namespace cudaep::device::sim {

class SharedMemory {
 public:
  static SharedMemory& Get();

  // A block of `kernel` has ended: what it wrote is overwritten. `shape` tells launches apart that may write elsewhere.
  void EndBlock(AnyKernel kernel, uint64_t shape);

  // The same of a block that goes on later, with what it wrote until then. `launch` tells launches apart whose first
  // blocks may write elsewhere before they wait.
  struct Range {
    size_t begin, end;  // in lines
  };
  struct Taken {
    std::vector<Range> ranges;
    std::vector<std::byte> bytes;
  };
  Taken Take(AnyKernel kernel, uint64_t launch);
  void Put(const Taken& taken);

 private:
  struct Use {
    std::unordered_set<uint64_t> shapes, launches;
    std::vector<Range> written;
  };
  SharedMemory();
  void Search(Use* use);

  std::byte* const begin_;
  const size_t lines_;
  std::unordered_map<AnyKernel, Use> uses_;
};

}  // namespace cudaep::device::sim
