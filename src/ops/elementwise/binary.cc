// Element-wise operators of two tensors with numpy broadcasting.
#include "kernels/elementwise/binary.h"

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct BinaryPlan : Plan {
  kernels::Broadcast<2> broadcast;
};

class Binary : public Operator {
 public:
  explicit Binary(kernels::BinaryKernel kernel) : kernel_(kernel) {}

  static Result<std::unique_ptr<Binary>> Create(const OpInfo& info) {
    const kernels::BinaryKernel kernel = kernels::FindBinaryKernel(info.op_type(), info.input_type(0));
    if (kernel == nullptr) return NotSupported("element type ", DataTypeName(info.input_type(0)));
    return std::make_unique<Binary>(kernel);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(outputs[0], BroadcastShapes(inputs[0].dims(), inputs[1].dims()));
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<BinaryPlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->broadcast, kernels::MakeBroadcast<2>(context.outputs[0], {context.inputs[0].dims(),
                                                                                          context.inputs[1].dims()}));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernel_({.a = context.input(0),
                    .b = context.input(1),
                    .y = context.output(0),
                    .broadcast = &PlanAs<BinaryPlan>(plan).broadcast},
                   context.stream());
  }

 private:
  kernels::BinaryKernel kernel_;
};

KernelRow Arithmetic(const char* op, int since, int until, DataTypeSet types) {
  return {.op = op,
          .since = since,
          .until = until,
          .types = {{"T", types}},
          .in_place = {{0, 0}, {1, 0}},
          .make = Make<Binary>};
}

const RegisterRows kRows({
    Arithmetic("Add", 7, 14, kNumericTypes),
    Arithmetic("Sub", 7, 14, kNumericTypes),
    Arithmetic("Mul", 7, 14, kNumericTypes),
    Arithmetic("Div", 7, 14, kNumericTypes),
});

}  // namespace
}  // namespace cudaep::ops
