#include "ops/movement/slice_ranges.h"

#include <algorithm>
#include <cstdlib>

#include "ops/shape/host_ints.h"

namespace cudaep::ops {
// ONNX's rule: negative positions count from the end, then both are clamped to where a step can start and end. The
// largest number is no end at all, backwards too: exporters write it so and the CPU provider reads it so.
SliceRange SliceRangeOf(int64_t dim, int64_t start, int64_t end, int64_t step) {
  SliceRange range{.step = std::max(step, -INT64_MAX)};
  if (dim == 0) return range;
  const int64_t lowest = step > 0 ? 0 : -1;
  const bool no_end = end == INT64_MAX || end == INT32_MAX;
  if (start < 0) start += dim;
  if (end < 0) end += dim;
  if (step < 0 && no_end) end = lowest;
  start = std::clamp<int64_t>(start, 0, step > 0 ? dim : dim - 1);
  end = std::clamp<int64_t>(end, lowest, step > 0 ? dim : dim - 1);
  range.start = start;
  const int64_t distance = step > 0 ? end - start : start - end;
  if (distance > 0) range.count = (distance - 1) / std::abs(range.step) + 1;
  return range;
}

SliceBounds::SliceBounds(const OpInfo& info) {
  if (info.since_version() >= 10) return;
  attributes_ = Attributes{info.IntsOr("starts", {}), info.IntsOr("ends", {}), info.Ints("axes")};
}

Result<std::vector<SliceRange>> SliceBounds::Read(TensorViews inputs) const {
  std::vector<int64_t> starts, ends, steps;
  std::optional<std::vector<int64_t>> axes;
  if (attributes_) {
    starts = attributes_->starts;
    ends = attributes_->ends;
    axes = attributes_->axes;
  } else {
    CUDAEP_ASSIGN_OR_RETURN(starts, HostInts(inputs[1], "starts"));
    CUDAEP_ASSIGN_OR_RETURN(ends, HostInts(inputs[2], "ends"));
    if (inputs.size() > 3 && inputs[3].present()) {
      CUDAEP_ASSIGN_OR_RETURN(axes, HostInts(inputs[3], "axes"));
    }
    if (inputs.size() > 4 && inputs[4].present()) {
      CUDAEP_ASSIGN_OR_RETURN(steps, HostInts(inputs[4], "steps"));
    }
  }
  const Dims dims = inputs[0].dims();
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || steps.size() != starts.size() || (axes && axes->size() != starts.size())) {
    return InvalidArgument("starts, ends, axes and steps differ in length");
  }
  std::vector<SliceRange> ranges(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) ranges[d].count = dims[d];
  std::vector<bool> seen(dims.size(), false);
  for (size_t i = 0; i < starts.size(); ++i) {
    CUDAEP_ASSIGN_OR_RETURN(const int axis,
                            NormalizeAxis(axes ? (*axes)[i] : static_cast<int64_t>(i), static_cast<int>(dims.size())));
    const auto d = static_cast<size_t>(axis);
    if (seen[d]) return InvalidArgument("axis ", axis, " is sliced twice");
    if (steps[i] == 0) return InvalidArgument("the step along axis ", axis, " is 0");
    seen[d] = true;
    ranges[d] = SliceRangeOf(dims[d], starts[i], ends[i], steps[i]);
  }
  return ranges;
}

int64_t ApplyRanges(const std::vector<SliceRange>& ranges, Shape& strides) {
  int64_t offset = 0;
  for (int d = 0; d < strides.rank(); ++d) {
    const SliceRange& range = ranges[static_cast<size_t>(d)];
    offset += range.start * strides[d];
    // A single position is not stepped from, and its step may be any number.
    strides[d] *= range.count > 1 ? range.step : 0;
  }
  return offset;
}

}  // namespace cudaep::ops
