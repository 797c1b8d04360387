// Pow: an exponent of another type than the base may be cast first, see kernels/elementwise/power.h.
#include "kernels/elementwise/cast.h"
#include "kernels/elementwise/power.h"
#include "ops/elementwise/model_broadcast.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct PowPlan : Plan {
  kernels::Broadcast<2> broadcast;
  int64_t exponent_elems = 0;
};

class Pow : public Operator {
 public:
  Pow(kernels::BinaryKernel kernel, kernels::CastKernel cast, DataType exponent)
      : kernel_(kernel), cast_(cast), exponent_(exponent) {}

  static Result<std::unique_ptr<Pow>> Create(const OpInfo& info) {
    const DataType base = info.input_type(0), given = info.input_type(1);
    const DataType exponent = kernels::PowerExponentType(base, given);
    const auto kernel = kernels::FindPowerKernel(base, exponent);
    const auto cast = kernels::FindCastKernel(given);
    if (kernel == nullptr || cast == nullptr) {
      return NotSupported("element types ", DataTypeName(base), " and ", DataTypeName(given));
    }
    CUDAEP_RETURN_IF_ERROR(CheckModelBroadcast<2>(info));
    return std::make_unique<Pow>(kernel, exponent == given ? nullptr : cast, exponent);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(outputs[0], BroadcastShapes(inputs[0].dims(), inputs[1].dims()));
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<PowPlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->broadcast, kernels::MakeBroadcast<2>(context.outputs[0], {context.inputs[0].dims(),
                                                                                            context.inputs[1].dims()}));
    plan->exponent_elems = context.inputs[1].elems();
    if (cast_ != nullptr) plan->workspace_bytes = static_cast<size_t>(plan->exponent_elems) * SizeOf(exponent_);
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const PowPlan& p = PlanAs<PowPlan>(plan);
    const void* exponent = context.input(1);
    if (cast_ != nullptr) {
      CUDAEP_RETURN_IF_ERROR(
          cast_({.x = exponent, .y = context.workspace, .to = exponent_, .elems = p.exponent_elems}, context.stream()));
      exponent = context.workspace;
    }
    return kernel_({.a = context.input(0), .b = exponent, .y = context.output(0), .broadcast = &p.broadcast},
                   context.stream());
  }

 private:
  kernels::BinaryKernel kernel_;
  kernels::CastKernel cast_;  // null where the exponent is read as it is
  DataType exponent_;         // type the kernel reads
};

constexpr DataTypeSet kBaseTypes = kFloatTypes | kIndexTypes;

KernelRow Row(int since, int until, std::vector<TypeConstraint> types) {
  return {
      .op = "Pow", .since = since, .until = until, .types = std::move(types), .in_place = {{0, 0}}, .make = Make<Pow>};
}

const RegisterRows kRows({
    Row(7, 7, {{"T", kFloatTypes}}),
    Row(12, 15, {{"T", kBaseTypes}, {"T1", kNumericTypes}}),
});

}  // namespace
}  // namespace cudaep::ops
