#include "kernels/movement/gather.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct GatherElementsPlan : Plan {
  kernels::GatherElementsShape shape;
};

class GatherElements final : public Operator {
 public:
  explicit GatherElements(int64_t axis) : axis_(axis) {}

  static Result<std::unique_ptr<GatherElements>> Create(const OpInfo& info) {
    return std::make_unique<GatherElements>(info.IntOr("axis", 0));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims data = inputs[0].dims(), indices = inputs[1].dims();
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, inputs[0].rank));
    bool fits = data.size() == indices.size();
    for (size_t d = 0; fits && d < data.size(); ++d) fits = static_cast<int>(d) == axis || indices[d] <= data[d];
    if (!fits) return InvalidArgument("indices of shape ", indices, " do not fit data of shape ", data);
    outputs[0].Assign(indices);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorView& data = context.inputs[0];
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, data.rank));
    Shape strides = ContiguousStrides(data.dims());
    auto plan = std::make_unique<GatherElementsPlan>();
    plan->shape.axis = data.dim[axis];
    plan->shape.axis_stride = strides[axis];
    plan->shape.elem_bytes = static_cast<int>(SizeOf(data.type));
    strides[axis] = 0;
    CUDAEP_ASSIGN_OR_RETURN(plan->shape.base, kernels::MakeStridedCopy(context.outputs[0], strides, 0, 1));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchGatherElements(PlanAs<GatherElementsPlan>(plan).shape, context.input(0),
                                         {context.input(1), context.inputs[1].type == DataType::kInt64},
                                         context.output(0), context.stream());
  }

 private:
  int64_t axis_;
};

const RegisterRows kRows({
    {.op = "GatherElements",
     .since = 11,
     .until = 13,
     .types = {{"T", kFixedSizeTypes}, {"Tind", kIndexTypes}},
     .make = Make<GatherElements>},
});

}  // namespace
}  // namespace cudaep::ops
