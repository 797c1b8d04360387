#include "kernels/elementwise/where.h"

#include "kernels/pack.h"
#include "ops/elementwise/model_broadcast.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct WherePlan : Plan {
  kernels::Broadcast<3> broadcast;
  kernels::Broadcast<3> halves;  // of the components of complex numbers, where addresses are aligned to those alone
};

Result<kernels::Broadcast<3>> Selection(const PlanContext& context, bool halves) {
  std::array<Shape, 4> shapes{context.outputs[0], Shape(context.inputs[0].dims()), Shape(context.inputs[1].dims()),
                              Shape(context.inputs[2].dims())};
  for (size_t i = 0; halves && i < shapes.size(); ++i) shapes[i].Append(i == 1 ? 1 : 2);
  return kernels::MakeBroadcast<3>(shapes[0], {shapes[1].dims(), shapes[2].dims(), shapes[3].dims()});
}

class Where final : public Operator {
 public:
  static Result<std::unique_ptr<Where>> Create(const OpInfo& info) {
    CUDAEP_RETURN_IF_ERROR(CheckModelBroadcast<3>(info));
    return std::make_unique<Where>();
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const Shape values, BroadcastShapes(inputs[1].dims(), inputs[2].dims()));
    CUDAEP_ASSIGN_OR_RETURN(outputs[0], BroadcastShapes(inputs[0].dims(), values));
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<WherePlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->broadcast, Selection(context, false));
    if (IsComplex(context)) {
      CUDAEP_ASSIGN_OR_RETURN(plan->halves, Selection(context, true));
    }
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<WherePlan>(base);
    const void *a = context.input(1), *b = context.input(2);
    void* const y = context.output(0);
    const size_t size = SizeOf(context.inputs[1].type);
    const bool whole = kernels::IsAligned(a, size) && kernels::IsAligned(b, size) && kernels::IsAligned(y, size);
    return kernels::LaunchWhere(
        whole ? size : size / 2,
        {.condition = context.input(0), .a = a, .b = b, .y = y, .broadcast = whole ? &plan.broadcast : &plan.halves},
        context.stream());
  }

 private:
  static bool IsComplex(const PlanContext& context) {
    const DataType type = context.inputs[1].type;
    return type == DataType::kComplex64 || type == DataType::kComplex128;
  }
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
