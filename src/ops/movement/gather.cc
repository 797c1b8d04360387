#include "kernels/movement/gather.h"

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct GatherPlan : Plan {
  kernels::GatherShape shape;
};

class Gather final : public Operator {
 public:
  explicit Gather(int64_t axis) : axis_(axis) {}

  static Result<std::unique_ptr<Gather>> Create(const OpInfo& info) {
    return std::make_unique<Gather>(info.IntOr("axis", 0));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims data = inputs[0].dims(), indices = inputs[1].dims();
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, inputs[0].rank));
    outputs[0].Resize(inputs[0].rank - 1 + inputs[1].rank);
    int64_t* dim = std::copy_n(data.begin(), axis, outputs[0].data());
    dim = std::copy(indices.begin(), indices.end(), dim);
    std::copy(data.begin() + axis + 1, data.end(), dim);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorView& data = context.inputs[0];
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, data.rank));
    const auto at = static_cast<size_t>(axis);
    auto plan = std::make_unique<GatherPlan>();
    plan->shape = {.outer = ElementCount(data.dims().first(at)),
                   .axis = data.dim[axis],
                   .count = context.inputs[1].elems(),
                   .row_bytes = ElementCount(data.dims().subspan(at + 1)) * static_cast<int64_t>(SizeOf(data.type))};
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchGather(PlanAs<GatherPlan>(plan).shape, context.input(0),
                                 {context.input(1), context.inputs[1].type == DataType::kInt64}, context.output(0),
                                 context.stream());
  }

 private:
  int64_t axis_;
};

const RegisterRows kRows({
    {.op = "Gather",
     .since = 1,
     .until = 13,
     .types = {{"T", kFixedSizeTypes}, {"Tind", kIndexTypes}},
     .make = Make<Gather>},
});

}  // namespace
}  // namespace cudaep::ops
