#include "core/checked_math.h"
#include "ops/movement/segmented.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

class Concat final : public Operator {
 public:
  explicit Concat(int64_t axis) : axis_(axis) {}

  static Result<std::unique_ptr<Concat>> Create(const OpInfo& info) {
    const std::optional<int64_t> axis = info.Int("axis");
    if (!axis) return InvalidArgument("attribute axis is missing");
    return std::make_unique<Concat>(*axis);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    if (inputs.empty()) return InvalidArgument("there is no input");
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, inputs[0].rank));
    outputs[0].Assign(inputs[0].dims());
    for (size_t i = 1; i < inputs.size(); ++i) {
      const TensorView& input = inputs[i];
      bool fits = input.present() && input.rank == inputs[0].rank;
      for (int d = 0; fits && d < input.rank; ++d) fits = d == axis || input.dim[d] == inputs[0].dim[d];
      if (!fits) {
        return InvalidArgument("input ", i, " of shape ", input.dims(), " does not fit ", inputs[0].dims(),
                               " along axis ", axis);
      }
      if (!CheckedAdd(outputs[0][axis], input.dim[axis], &outputs[0][axis])) {
        return InvalidArgument("the size along axis ", axis, " exceeds 64 bits");
      }
    }
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorViews inputs = context.inputs;
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, inputs[0].rank));
    return PlanPtr(MakeSegmentedPlan(context.outputs[0], axis, inputs[0].type, inputs.size(),
                                     [&](size_t i) { return inputs[i].dim[axis]; }));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& segmented = PlanAs<SegmentedPlan>(plan);
    return LaunchSegmented(
        segmented, [&](size_t i) { return const_cast<void*>(context.inputs[i].data); },
        [&](std::span<const kernels::Segment> parts) {
          return kernels::LaunchJoin(segmented.rows, parts, context.output(0), context.stream());
        });
  }

 private:
  int64_t axis_;
};

// Of compiled regions: the first input with the others in their places along the last axis, from "firsts" on.
class PlaceParts final : public Operator {
 public:
  explicit PlaceParts(std::vector<int64_t> firsts) : firsts_(std::move(firsts)) {}

  static Result<std::unique_ptr<PlaceParts>> Create(const OpInfo& info) {
    return std::make_unique<PlaceParts>(info.IntsOr("firsts", {}));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    if (inputs.size() < 2 || inputs.size() != firsts_.size() + 1) {
      return InvalidArgument("there are ", inputs.size(), " inputs for ", firsts_.size(), " places of parts");
    }
    const Dims whole = inputs[0].dims();
    for (size_t i = 1; i < inputs.size(); ++i) {
      const Dims part = inputs[i].dims();
      bool fits = !part.empty() && part.size() == whole.size();
      if (fits) fits = std::equal(part.begin(), part.end() - 1, whole.begin());
      if (!fits || firsts_[i - 1] < 0 || firsts_[i - 1] > whole.back() - part.back()) {
        return InvalidArgument("input ", i, " of shape ", part, " has no place in ", whole, " from ", firsts_[i - 1],
                               " on");
      }
    }
    outputs[0].Assign(whole);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorViews parts = context.inputs.subspan(1);
    auto plan = MakeSegmentedPlan(context.outputs[0], context.outputs[0].rank() - 1, parts[0].type, parts.size(),
                                  [&](size_t i) { return parts[i].dim[parts[i].rank - 1]; });
    for (size_t i = 0; i < parts.size(); ++i) {
      plan->segments[i].offset_bytes = firsts_[i] * static_cast<int64_t>(SizeOf(parts[i].type));
    }
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& segmented = PlanAs<SegmentedPlan>(plan);
    if (context.input(0) != context.output(0)) {
      CUDAEP_RETURN_IF_ERROR(
          device::MemcpyAsync(context.output(0), context.input(0), context.inputs[0].bytes(), context.stream()));
    }
    return LaunchSegmented(
        segmented, [&](size_t i) { return const_cast<void*>(context.inputs[i + 1].data); },
        [&](std::span<const kernels::Segment> parts) {
          return kernels::LaunchJoin(segmented.rows, parts, context.output(0), context.stream());
        });
  }

 private:
  std::vector<int64_t> firsts_;
};

const RegisterRows kRows({
    {.op = "Concat", .since = 4, .until = 13, .types = {{"T", kFixedSizeTypes}}, .make = Make<Concat>},
    {.domain = kFusedDomain,
     .op = "PlaceParts",
     .types = {{"T", kFixedSizeTypes}},
     .extends = {{0, 0}},
     .make = Make<PlaceParts>},
});

}  // namespace
}  // namespace cudaep::ops
