// Where the buffers of a region lie in one block of memory, reused as soon as nobody reads them any more.
//
// Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace cudaep::graph {

inline constexpr size_t kBufferAlignment = 256;

// A buffer and the steps that use it, the first and the last included.
struct BufferLife {
  size_t bytes = 0;
  int first = 0, last = 0;
};

struct MemoryPlan {
  std::vector<size_t> offsets;  // of each buffer, aligned to kBufferAlignment; 0 for an empty one
  size_t bytes = 0;             // of the whole block
};

// The largest buffers choose first, each the smallest gap that holds it between those that live at the same time.
MemoryPlan PlanMemory(std::span<const BufferLife> buffers);

}  // namespace cudaep::graph
