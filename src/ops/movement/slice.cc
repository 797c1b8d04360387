#include "kernels/movement/strided_copy.h"
#include "ops/movement/slice_ranges.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct SlicePlan : Plan {
  kernels::StridedCopy copy;
};

class Slice final : public Operator {
 public:
  explicit Slice(const OpInfo& info) : bounds_(info) {}

  static Result<std::unique_ptr<Slice>> Create(const OpInfo& info) { return std::make_unique<Slice>(info); }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<SliceRange> ranges, bounds_.Read(inputs));
    outputs[0].Resize(inputs[0].rank);
    for (size_t d = 0; d < ranges.size(); ++d) outputs[0][static_cast<int>(d)] = ranges[d].count;
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorView& input = context.inputs[0];
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<SliceRange> ranges, bounds_.Read(context.inputs));
    Shape strides = ContiguousStrides(input.dims());
    const int64_t offset = ApplyRanges(ranges, strides);
    auto plan = std::make_unique<SlicePlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->copy,
                            kernels::MakeStridedCopy(context.outputs[0], strides, offset, SizeOf(input.type)));
    if (const kernels::StridedCopy& copy = plan->copy; copy.contiguous()) {
      plan->parts.push_back({.offset_bytes = static_cast<size_t>(copy.offset * copy.unit_bytes)});
    }
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    if (!plan.parts.empty() && context.LiesIn(plan.parts[0])) return Status::Ok();
    return kernels::LaunchStridedCopy(PlanAs<SlicePlan>(plan).copy, context.input(0), context.output(0),
                                      context.stream());
  }

 private:
  SliceBounds bounds_;
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
