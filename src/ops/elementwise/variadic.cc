// Min, Max and Sum of any number of tensors with numpy broadcasting: the binary kernel, folded over the inputs.
// 16-bit sums are rounded after each input, as the host's are.
#include "kernels/elementwise/binary.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

// One launch for each step; step i combines the result so far with input i + 1.
struct VariadicPlan : Plan {
  std::vector<kernels::Broadcast<2>> steps;
};

class Variadic : public Operator {
 public:
  explicit Variadic(kernels::BinaryKernel kernel) : kernel_(kernel) {}

  static Result<std::unique_ptr<Variadic>> Create(const OpInfo& info) {
    const DataType type = info.input_type(0);
    const kernels::BinaryKernel kernel =
        kernels::FindBinaryKernel(info.op_type() == "Sum" ? "Add" : info.op_type(), type);
    if (kernel == nullptr) return NotSupported("element type ", DataTypeName(type));
    // A single input is returned as it is: the larger of x and x.
    return std::make_unique<Variadic>(info.input_count() > 1 ? kernel : kernels::FindBinaryKernel("Max", type));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0] = Shape(inputs[0].dims());
    for (const TensorView& input : inputs.subspan(1)) {
      CUDAEP_ASSIGN_OR_RETURN(outputs[0], BroadcastShapes(outputs[0], input.dims()));
    }
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<VariadicPlan>();
    const Dims output = context.outputs[0];
    Dims so_far = context.inputs[0].dims();
    for (size_t i = context.inputs.size() > 1 ? 1 : 0; i < context.inputs.size(); ++i) {
      CUDAEP_ASSIGN_OR_RETURN(auto step, kernels::MakeBroadcast<2>(output, {so_far, context.inputs[i].dims()}));
      plan->steps.push_back(step);
      so_far = output;
    }
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const void* so_far = context.input(0);
    size_t input = context.inputs.size() > 1 ? 1 : 0;
    for (const kernels::Broadcast<2>& step : PlanAs<VariadicPlan>(plan).steps) {
      CUDAEP_RETURN_IF_ERROR(kernel_(
          {.a = so_far, .b = context.input(static_cast<int>(input)), .y = context.output(0), .broadcast = &step},
          context.stream()));
      so_far = context.output(0);
      ++input;
    }
    return Status::Ok();
  }

 private:
  kernels::BinaryKernel kernel_;
};

// Only the first two inputs are read before the output is written.
KernelRow Row(const char* op, int since, int until, DataTypeSet types) {
  return {.op = op,
          .since = since,
          .until = until,
          .types = {{"T", types}},
          .in_place = {{0, 0}, {1, 0}},
          .make = Make<Variadic>};
}

const RegisterRows kRows({
    Row("Max", 6, 13, kNumericTypes),
    Row("Min", 6, 13, kNumericTypes),
    Row("Sum", 6, 13, kFloatTypes),
});

}  // namespace
}  // namespace cudaep::ops
