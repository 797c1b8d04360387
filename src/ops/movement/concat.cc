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

const RegisterRows kRows({
    {.op = "Concat", .since = 4, .until = 13, .types = {{"T", kFixedSizeTypes}}, .make = Make<Concat>},
});

}  // namespace
}  // namespace cudaep::ops
