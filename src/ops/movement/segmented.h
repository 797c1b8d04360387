// What Concat and Split share: one tensor that holds others side by side along an axis.
#pragma once

#include <array>

#include "kernels/movement/segments.h"
#include "ops/operator.h"

namespace cudaep::ops {

struct SegmentedPlan : Plan {
  kernels::SegmentRows rows;
  std::vector<kernels::Segment> segments;  // without pointers
};

// `part(i)` is the size of part i along the axis.
template <class PartSize>
std::unique_ptr<SegmentedPlan> MakeSegmentedPlan(Dims whole, int axis, DataType type, size_t parts, PartSize&& part) {
  const auto at = static_cast<size_t>(axis);
  const int64_t slice_bytes = ElementCount(whole.subspan(at + 1)) * static_cast<int64_t>(SizeOf(type));
  auto plan = std::make_unique<SegmentedPlan>();
  plan->rows = {.rows = ElementCount(whole.first(at)), .whole_bytes = whole[at] * slice_bytes};
  int64_t offset_bytes = 0;
  for (size_t i = 0; i < parts; ++i) {
    plan->segments.push_back({.row_bytes = part(i) * slice_bytes, .offset_bytes = offset_bytes});
    offset_bytes += plan->segments.back().row_bytes;
  }
  return plan;
}

// Calls `launch` with the segments of the plan, their pointers filled in by `pointer(i)`, a launch's worth at a time.
template <class PointerOf, class Launch>
Status LaunchSegmented(const SegmentedPlan& plan, PointerOf&& pointer, Launch&& launch) {
  std::array<kernels::Segment, kernels::kMaxSegments> group;
  for (size_t first = 0; first < plan.segments.size(); first += group.size()) {
    const size_t count = std::min(group.size(), plan.segments.size() - first);
    for (size_t i = 0; i < count; ++i) {
      group[i] = plan.segments[first + i];
      group[i].pointer = pointer(first + i);
    }
    CUDAEP_RETURN_IF_ERROR(launch(std::span<const kernels::Segment>(group).first(count)));
  }
  return Status::Ok();
}

}  // namespace cudaep::ops
