// com.microsoft's BiasSplitGelu, SwiGLU and GatedAdd. Compiled regions make `Gated` of the fused domain: activation(a)
// * b of the halves a and b of the last dimension, or activation(b) * a with "activated" 1; "activation" as
// ActivationName has it.
#include "kernels/elementwise/gated.h"

#include "kernels/elementwise/swiglu.h"
#include "ops/activation_attributes.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

// The shape of one half of the last dimension.
Status HalfRows(Dims x, Shape& half) {
  if (x.empty() || x.back() % 2 != 0) return InvalidArgument("the last dimension of ", x, " must be even");
  half.Assign(x);
  half[half.rank() - 1] /= 2;
  return Status::Ok();
}

class BiasSplitGelu final : public Operator {
 public:
  explicit BiasSplitGelu(DataType type) : type_(type) {}

  static Result<std::unique_ptr<BiasSplitGelu>> Create(const OpInfo& info) {
    return std::make_unique<BiasSplitGelu>(info.input_type(0));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims x = inputs[0].dims(), bias = inputs[1].dims();
    CUDAEP_RETURN_IF_ERROR(HalfRows(x, outputs[0]));
    if (bias.size() == 1 && bias[0] == x.back()) return Status::Ok();
    return InvalidArgument("the bias has shape ", bias, ", not the last dimension of ", x);
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
    CUDAEP_ASSIGN_OR_RETURN(op->activation_, ParseGate(info, "activation"));
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    return HalfRows(inputs[0].dims(), outputs[0]);
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

// ONNX Runtime makes it of gated layers from 1.32 on: of two tensors, or of the halves of one tensor's last dimension.
class SwiGlu final : public Operator {
 public:
  explicit SwiGlu(const OpInfo& info) : halves_(!info.has_input(1)) {
    args_.type = info.input_type(0);
    args_.alpha = info.FloatOr("activation_alpha", 1.0f);
    args_.beta = info.FloatOr("activation_beta", 0.0f);
    args_.limit = info.FloatOr("limit", 0.0f);
    args_.rounds_activation = info.IntOr("round_activation", 0) != 0;
  }

  static Result<std::unique_ptr<SwiGlu>> Create(const OpInfo& info) { return std::make_unique<SwiGlu>(info); }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims gate = inputs[0].dims();
    if (halves_) return HalfRows(gate, outputs[0]);
    if (!SameDims(gate, inputs[1].dims())) {
      return InvalidArgument("gate ", gate, " and up ", inputs[1].dims(), " must have one shape");
    }
    outputs[0].Assign(gate);
    return Status::Ok();
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    kernels::SwiGluArgs args = args_;
    args.gate = context.input(0);
    args.y = context.output(0);
    if (halves_) {
      const Dims y = plan.outputs[0];
      args.columns = y.back(), args.row_step = 2 * y.back(), args.rows = ElementCount(y.first(y.size() - 1));
      args.up = static_cast<const std::byte*>(args.gate) + static_cast<size_t>(args.columns) * SizeOf(args.type);
    } else {
      args.columns = args.row_step = plan.outputs[0].elems(), args.rows = 1;
      args.up = context.input(1);
    }
    return kernels::LaunchSwiGlu(args, context.stream());
  }

 private:
  bool halves_;
  kernels::SwiGluArgs args_;
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
    {.domain = kMicrosoftDomain, .op = "SwiGLU", .types = {{"T", kernels::kSwiGluTypes}}, .make = Make<SwiGlu>},
    {.domain = kMicrosoftDomain,
     .op = "GatedAdd",
     .types = {{"T", kernels::kGatedAddTypes}},
     .in_place = {{0, 0}, {1, 0}},
     .make = Make<GatedAdd>},
});

}  // namespace
}  // namespace cudaep::ops
