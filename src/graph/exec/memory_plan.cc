#include "graph/exec/memory_plan.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "core/checked_math.h"

namespace cudaep::graph {
namespace {

bool Overlap(const BufferLife& a, const BufferLife& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

MemoryPlan PlanMemory(std::span<const BufferLife> buffers) {
  MemoryPlan plan;
  plan.offsets.resize(buffers.size(), 0);
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });

  std::vector<size_t> placed;  // by offset
  for (const size_t i : order) {
    const size_t bytes = AlignUp(buffers[i].bytes, kBufferAlignment);
    if (bytes == 0) continue;
    size_t end = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    for (const size_t other : placed) {
      if (!Overlap(buffers[i], buffers[other])) continue;
      const size_t begin = plan.offsets[other];
      if (begin >= end + bytes && begin - end < best_gap) {
        best = end;
        best_gap = begin - end;
      }
      end = std::max(end, begin + AlignUp(buffers[other].bytes, kBufferAlignment));
    }
    plan.offsets[i] = best != SIZE_MAX ? best : end;
    plan.bytes = std::max(plan.bytes, plan.offsets[i] + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; }),
                  i);
  }
  return plan;
}

}  // namespace cudaep::graph
