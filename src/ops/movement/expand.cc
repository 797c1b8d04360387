#include "kernels/movement/strided_copy.h"
#include "ops/registry.h"
#include "ops/shape/host_ints.h"

namespace cudaep::ops {
namespace {

struct ExpandPlan : Plan {
  kernels::StridedCopy copy;
};

class Expand final : public Operator {
 public:
  static Result<std::unique_ptr<Expand>> Create(const OpInfo&) { return std::make_unique<Expand>(); }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, HostInts(inputs[1], "shape"));
    CUDAEP_RETURN_IF_ERROR(CheckedElementCount(shape).status());
    CUDAEP_ASSIGN_OR_RETURN(outputs[0], BroadcastShapes(inputs[0].dims(), shape));
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorView& input = context.inputs[0];
    const Shape& output = context.outputs[0];
    const Shape contiguous = ContiguousStrides(input.dims());
    Shape strides(output.rank(), 0);
    for (int d = 0, at = output.rank() - input.rank; d < input.rank; ++d, ++at) {
      strides[at] = input.dim[d] == 1 ? 0 : contiguous[d];
    }
    auto plan = std::make_unique<ExpandPlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->copy, kernels::MakeStridedCopy(output, strides, 0, SizeOf(input.type)));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchStridedCopy(PlanAs<ExpandPlan>(plan).copy, context.input(0), context.output(0),
                                      context.stream());
  }
};

const RegisterRows kRows({
    {.op = "Expand",
     .since = 8,
     .until = 13,
     .types = {{"T", kFixedSizeTypes}},
     .host_inputs = {1},
     .make = Make<Expand>},
});

}  // namespace
}  // namespace cudaep::ops
