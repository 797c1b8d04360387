// com.microsoft's QLinearAdd and QLinearMul.
#include "kernels/quant/qlinear.h"
#include "ops/quant/qlinear_value.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

using kernels::QLinearBinary;

enum Input : size_t { kA, kAScale, kAZero, kB, kBScale, kBZero, kYScale, kYZero };

struct QLinearBinaryPlan : Plan {
  kernels::QLinearOperands operands;
  kernels::Broadcast<2> broadcast;
};

class QLinearPair final : public Operator {
 public:
  QLinearPair(QLinearBinary op, DataType type) : op_(op), type_(type) {}

  static Result<std::unique_ptr<QLinearPair>> Create(const OpInfo& info, const KernelRow& row) {
    return std::make_unique<QLinearPair>(row.VariantAs<QLinearBinary>(), info.input_type(0));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(outputs[0], BroadcastShapes(inputs[kA].dims(), inputs[kB].dims()));
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorViews inputs = context.inputs;
    auto plan = std::make_unique<QLinearBinaryPlan>();
    CUDAEP_ASSIGN_OR_RETURN(const QLinearValue a, ReadQLinear(inputs, kAScale, kAZero));
    CUDAEP_ASSIGN_OR_RETURN(const QLinearValue b, ReadQLinear(inputs, kBScale, kBZero));
    CUDAEP_ASSIGN_OR_RETURN(const QLinearValue y, ReadQLinear(inputs, kYScale, kYZero));
    const bool product = op_ == QLinearBinary::kMul;
    plan->operands = {.a_ratio = (product ? a.scale * b.scale : a.scale) / y.scale,
                      .b_ratio = b.scale / y.scale,
                      .a_zero = a.zero,
                      .b_zero = b.zero,
                      .y_zero = y.zero};
    CUDAEP_ASSIGN_OR_RETURN(
        plan->broadcast, kernels::MakeBroadcast<2>(context.outputs[0].dims(), {inputs[kA].dims(), inputs[kB].dims()}));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& p = PlanAs<QLinearBinaryPlan>(plan);
    return kernels::LaunchQLinearBinary(op_, type_, p.operands, context.input(kA), context.input(kB), context.output(0),
                                        p.broadcast, context.stream());
  }

 private:
  QLinearBinary op_;
  DataType type_;
};

KernelRow Row(const char* op, QLinearBinary variant) {
  return {.domain = kMicrosoftDomain,
          .op = op,
          .types = {{"T", kInt8Types}},
          .host_inputs = {kAScale, kAZero, kBScale, kBZero, kYScale, kYZero},
          .variant = static_cast<int>(variant),
          .make = Make<QLinearPair>};
}

const RegisterRows kRows({
    Row("QLinearAdd", QLinearBinary::kAdd),
    Row("QLinearMul", QLinearBinary::kMul),
});

}  // namespace
}  // namespace cudaep::ops
