#include "kernels/movement/strided_copy.h"
#include "ops/registry.h"
#include "ops/shape/host_ints.h"

namespace cudaep::ops {
namespace {

struct SlicePlan : Plan {
  kernels::StridedCopy copy;
};

// What is taken of one dimension.
struct Range {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

// ONNX's rule: negative positions count from the end, then both are clamped to where a step can start and end.
Range RangeOf(int64_t dim, int64_t start, int64_t end, int64_t step) {
  Range range{.step = std::max(step, -INT64_MAX)};
  if (dim == 0) return range;
  const int64_t lowest = step > 0 ? 0 : -1;
  if (start < 0) start += dim;
  if (end < 0) end += dim;
  start = std::clamp<int64_t>(start, 0, step > 0 ? dim : dim - 1);
  end = std::clamp<int64_t>(end, lowest, step > 0 ? dim : dim - 1);
  range.start = start;
  const int64_t distance = step > 0 ? end - start : start - end;
  if (distance > 0) range.count = (distance - 1) / std::abs(range.step) + 1;
  return range;
}

class Slice final : public Operator {
 public:
  // The attributes of versions before 10; later ones have inputs instead.
  struct Attributes {
    std::vector<int64_t> starts, ends;
    std::optional<std::vector<int64_t>> axes;
  };
  explicit Slice(std::optional<Attributes> attributes) : attributes_(std::move(attributes)) {}

  static Result<std::unique_ptr<Slice>> Create(const OpInfo& info) {
    if (info.since_version() >= 10) return std::make_unique<Slice>(std::nullopt);
    return std::make_unique<Slice>(Attributes{info.IntsOr("starts", {}), info.IntsOr("ends", {}), info.Ints("axes")});
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<Range> ranges, Ranges(inputs));
    outputs[0].Resize(inputs[0].rank);
    for (size_t d = 0; d < ranges.size(); ++d) outputs[0][static_cast<int>(d)] = ranges[d].count;
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorView& input = context.inputs[0];
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<Range> ranges, Ranges(context.inputs));
    Shape strides = kernels::ContiguousStrides(input.dims());
    int64_t offset = 0;
    for (int d = 0; d < strides.rank(); ++d) {
      const Range& range = ranges[static_cast<size_t>(d)];
      offset += range.start * strides[d];
      // A single position is not stepped from, and its step may be any number.
      strides[d] *= range.count > 1 ? range.step : 0;
    }
    auto plan = std::make_unique<SlicePlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->copy,
                            kernels::MakeStridedCopy(context.outputs[0], strides, offset, SizeOf(input.type)));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchStridedCopy(PlanAs<SlicePlan>(plan).copy, context.input(0), context.output(0),
                                      context.stream());
  }

 private:
  // One range for each dimension of the input.
  Result<std::vector<Range>> Ranges(TensorViews inputs) const {
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
    std::vector<Range> ranges(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) ranges[d].count = dims[d];
    std::vector<bool> seen(dims.size(), false);
    for (size_t i = 0; i < starts.size(); ++i) {
      CUDAEP_ASSIGN_OR_RETURN(
          const int axis, NormalizeAxis(axes ? (*axes)[i] : static_cast<int64_t>(i), static_cast<int>(dims.size())));
      const auto d = static_cast<size_t>(axis);
      if (seen[d]) return InvalidArgument("axis ", axis, " is sliced twice");
      if (steps[i] == 0) return InvalidArgument("the step along axis ", axis, " is 0");
      seen[d] = true;
      ranges[d] = RangeOf(dims[d], starts[i], ends[i], steps[i]);
    }
    return ranges;
  }

  std::optional<Attributes> attributes_;
};

const RegisterRows kRows({
    {.op = "Slice", .since = 1, .until = 1, .types = {{"T", kFixedSizeTypes}}, .make = Make<Slice>},
    {.op = "Slice",
     .since = 10,
     .until = 13,
     .types = {{"T", kFixedSizeTypes}, {"Tind", kIndexTypes}},
     .host_inputs = {1, 2, 3, 4},
     .make = Make<Slice>},
});

}  // namespace
}  // namespace cudaep::ops
