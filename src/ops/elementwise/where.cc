#include "kernels/elementwise/where.h"

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct WherePlan : Plan {
  kernels::Broadcast<3> broadcast;
};

class Where : public Operator {
 public:
  explicit Where(kernels::WhereKernel kernel) : kernel_(kernel) {}

  static Result<std::unique_ptr<Where>> Create(const OpInfo& info) {
    const kernels::WhereKernel kernel = kernels::FindWhereKernel(SizeOf(info.input_type(1)));
    if (kernel == nullptr) return NotSupported("element type ", DataTypeName(info.input_type(1)));
    return std::make_unique<Where>(kernel);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const Shape values, BroadcastShapes(inputs[1].dims(), inputs[2].dims()));
    CUDAEP_ASSIGN_OR_RETURN(outputs[0], BroadcastShapes(inputs[0].dims(), values));
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<WherePlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->broadcast, kernels::MakeBroadcast<3>(context.outputs[0], {context.inputs[0].dims(),
                                                                                            context.inputs[1].dims(),
                                                                                            context.inputs[2].dims()}));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernel_({.condition = context.input(0),
                    .a = context.input(1),
                    .b = context.input(2),
                    .y = context.output(0),
                    .broadcast = &PlanAs<WherePlan>(plan).broadcast},
                   context.stream());
  }

 private:
  kernels::WhereKernel kernel_;
};

constexpr DataTypeSet kTypes =
    kNumericTypes | DataTypeSet{DataType::kBool, DataType::kComplex64, DataType::kComplex128};

const RegisterRows kRows({
    {.op = "Where",
     .since = 9,
     .until = 16,
     .types = {{"B", DataType::kBool}, {"T", kTypes}},
     .in_place = {{1, 0}, {2, 0}},
     .make = Make<Where>},
});

}  // namespace
}  // namespace cudaep::ops
