// Min, Max, Sum and Mean of any number of tensors with numpy broadcasting: one launch for up to
// kMaxVariadicInputs of them, further ones for more, each of which goes on from the result so far.
#include "kernels/elementwise/variadic.h"

#include "ops/elementwise/model_broadcast.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

using kernels::kMaxVariadicInputs;
using kernels::VariadicOp;

struct VariadicPlan : Plan {
  struct Round {
    int first = 0, count = 0;  // of the node's inputs
    kernels::Broadcast<kMaxVariadicInputs> broadcast;
  };
  std::vector<Round> rounds;
  bool has_scratch = false;  // 16-bit floats wait in fp32 between rounds; others in the output
};

class Variadic : public Operator {
 public:
  Variadic(VariadicOp op, kernels::VariadicKernel kernel) : op_(op), kernel_(kernel) {}

  static Result<std::unique_ptr<Variadic>> Create(const OpInfo& info, const KernelRow& row) {
    const auto op = row.VariantAs<VariadicOp>();
    if (const auto absent = info.absent_input()) return InvalidArgument("input ", *absent, " is left out");
    const kernels::VariadicKernel kernel = kernels::FindVariadicKernel(op, info.input_type(0));
    if (kernel == nullptr) return NotSupported("element type ", DataTypeName(info.input_type(0)));
    CUDAEP_RETURN_IF_ERROR(CheckModelBroadcast<kMaxVariadicInputs>(info));
    return std::make_unique<Variadic>(op, kernel);
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
    const auto inputs = static_cast<int>(context.inputs.size());
    for (int next = 0; next < inputs;) {
      VariadicPlan::Round round{.first = next, .count = std::min(inputs - next, kMaxVariadicInputs)};
      std::array<Dims, kMaxVariadicInputs> dims;
      dims.fill(output);  // behind the inputs nobody looks
      const TensorViews own = context.inputs.subspan(static_cast<size_t>(next), static_cast<size_t>(round.count));
      for (size_t i = 0; i < own.size(); ++i) dims[i] = own[i].dims();
      CUDAEP_ASSIGN_OR_RETURN(round.broadcast, kernels::MakeBroadcast<kMaxVariadicInputs>(output, dims));
      plan->rounds.push_back(round);
      next += round.count;
    }
    plan->has_scratch = plan->rounds.size() > 1 && kFloat16Types.Contains(context.inputs[0].type);
    if (plan->has_scratch) plan->AddScratch(static_cast<size_t>(context.outputs[0].elems()) * sizeof(float));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<VariadicPlan>(base);
    for (const VariadicPlan::Round& round : plan.rounds) {
      const void* inputs[kMaxVariadicInputs];
      for (int i = 0; i < round.count; ++i) inputs[i] = context.input(round.first + i);
      const bool mean = op_ == VariadicOp::kMean;
      CUDAEP_RETURN_IF_ERROR(kernel_({.inputs = inputs,
                                      .count = round.count,
                                      .y = context.output(0),
                                      .broadcast = &round.broadcast,
                                      .factor = mean ? 1.0 / static_cast<double>(context.inputs.size()) : 1.0,
                                      .running = plan.has_scratch ? context.scratch(0) : context.output(0),
                                      .resumes = round.first > 0,
                                      .pauses = &round != &plan.rounds.back()},
                                     context.stream()));
    }
    return Status::Ok();
  }

 private:
  VariadicOp op_;
  kernels::VariadicKernel kernel_;
};

// The first two inputs are always read before the output is written.
KernelRow Row(const char* op, VariadicOp variant) {
  return {.op = op,
          .since = 1,
          .until = 13,
          .types = {{"T", kernels::VariadicTypes(variant)}},
          .in_place = {{0, 0}, {1, 0}},
          .variant = static_cast<int>(variant),
          .make = Make<Variadic>};
}

const RegisterRows kRows({
    Row("Max", VariadicOp::kMax),
    Row("Mean", VariadicOp::kMean),
    Row("Min", VariadicOp::kMin),
    Row("Sum", VariadicOp::kSum),
});

}  // namespace
}  // namespace cudaep::ops
