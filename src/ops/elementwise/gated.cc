// com.microsoft's BiasSplitGelu and GatedAdd. Compiled regions make `Gated` of the fused domain: activation(a) * b of
// the halves a and b of the last dimension, or activation(b) * a with "activated" 1; "activation" as ActivationName has
// it.
#include "kernels/elementwise/gated.h"

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

class BiasSplitGelu final : public Operator {
 public:
  explicit BiasSplitGelu(DataType type) : type_(type) {}

  static Result<std::unique_ptr<BiasSplitGelu>> Create(const OpInfo& info) {
    return std::make_unique<BiasSplitGelu>(info.input_type(0));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims x = inputs[0].dims(), bias = inputs[1].dims();
    if (x.empty() || x.back() % 2 != 0) return InvalidArgument("the last dimension of ", x, " must be even");
    if (bias.size() != 1 || bias[0] != x.back()) {
      return InvalidArgument("the bias has shape ", bias, ", not the last dimension of ", x);
    }
    outputs[0].Assign(x);
    outputs[0][outputs[0].rank() - 1] /= 2;
    return Status::Ok();
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const Dims y = plan.outputs[0];
    return kernels::LaunchBiasSplitGelu(type_, context.input(0), context.input(1), ElementCount(y.first(y.size() - 1)),
                                        y.back(), context.output(0), context.stream());
  }

 private:
  DataType type_;
};

class Gated final : public Operator {
 public:
  static Result<std::unique_ptr<Gated>> Create(const OpInfo& info) {
    auto op = std::make_unique<Gated>();
    op->type_ = info.input_type(0);
    op->second_ = info.BoolOr("activated", false);
    const std::string name = info.StringOr("activation", "none");
    const auto activation = ActivationFromName(name);
    if (!activation || ParameterCount(*activation) != 0) return NotSupported("activation '", name, "' of a gate");
    op->activation_ = *activation;
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims x = inputs[0].dims();
    if (x.empty() || x.back() % 2 != 0) return InvalidArgument("the last dimension of ", x, " must be even");
    outputs[0].Assign(x);
    outputs[0][outputs[0].rank() - 1] /= 2;
    return Status::Ok();
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const Dims y = plan.outputs[0];
    const int64_t half = y.back();
    return kernels::LaunchGated(type_, activation_, context.input(0), ElementCount(y.first(y.size() - 1)), half,
                                second_ ? half : 0, second_ ? 0 : half, context.output(0), context.stream());
  }

 private:
  DataType type_ = DataType::kFloat;
  Activation activation_ = Activation::kNone;
  bool second_ = false;
};

struct GatedAddPlan : Plan {
  kernels::Broadcast<3> broadcast;
};

class GatedAdd final : public Operator {
 public:
  explicit GatedAdd(DataType type) : type_(type) {}

  static Result<std::unique_ptr<GatedAdd>> Create(const OpInfo& info) {
    return std::make_unique<GatedAdd>(info.input_type(0));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims x = inputs[0].dims();
    Shape gate(x);
    if (gate.rank() > 0) gate[gate.rank() - 1] = 1;
    if (x.empty() || !SameDims(inputs[1].dims(), x) || !SameDims(inputs[2].dims(), gate)) {
      return InvalidArgument("X ", x, ", Y ", inputs[1].dims(), " and gate ", inputs[2].dims(),
                             " must be the same but for a last dimension of 1 of the gate");
    }
    outputs[0].Assign(x);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<GatedAddPlan>();
    const TensorViews in = context.inputs;
    CUDAEP_ASSIGN_OR_RETURN(plan->broadcast,
                            kernels::MakeBroadcast<3>(context.outputs[0], {in[0].dims(), in[1].dims(), in[2].dims()}));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchGatedAdd(type_, context.input(0), context.input(1), context.input(2),
                                   PlanAs<GatedAddPlan>(plan).broadcast, context.output(0), context.stream());
  }

 private:
  DataType type_;
};

const RegisterRows kRows({
    {.domain = kFusedDomain, .op = "Gated", .types = {{"T", kernels::kGatedTypes}}, .make = Make<Gated>},
    {.domain = kMicrosoftDomain,
     .op = "BiasSplitGelu",
     .types = {{"T", kernels::kBiasSplitGeluTypes}},
     .make = Make<BiasSplitGelu>},
    {.domain = kMicrosoftDomain,
     .op = "GatedAdd",
     .types = {{"T", kernels::kGatedAddTypes}},
     .in_place = {{0, 0}, {1, 0}},
     .make = Make<GatedAdd>},
});

}  // namespace
}  // namespace cudaep::ops
