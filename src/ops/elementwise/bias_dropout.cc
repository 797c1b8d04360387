// com.microsoft's sums behind a product: BiasDropout for inference (data + bias, and a residual where there is one; the
// mask says that nothing was dropped) and BiasAdd (X + bias + skip). One launch of Sum, rounded once.
#include "kernels/elementwise/variadic.h"
#include "kernels/movement/fill.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

constexpr int kTerms = 3, kTrainingMode = 4;

struct BiasPlan : Plan {
  kernels::Broadcast<kernels::kMaxVariadicInputs> broadcast;
};

class BiasSum : public Operator {
 public:
  BiasSum(kernels::VariadicKernel kernel, int terms) : kernel_(kernel), terms_(terms) {}

  static Result<std::unique_ptr<BiasSum>> Create(const OpInfo& info) {
    if (info.has_input(kTrainingMode)) {
      return NotSupported("input training_mode; only inference, without it, is offered");
    }
    const auto kernel = kernels::FindVariadicKernel(kernels::VariadicOp::kSum, info.input_type(0));
    return std::make_unique<BiasSum>(kernel, info.has_input(2) ? kTerms : kTerms - 1);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims dims = inputs[0].dims(), bias = inputs[1].dims();
    if (dims.empty() || bias.size() != 1 || bias[0] != dims.back()) {
      return InvalidArgument("bias ", bias, " must have the length of the last dimension of ", dims);
    }
    if (terms_ == kTerms && !SameDims(inputs[2].dims(), dims)) {
      return InvalidArgument("residual ", inputs[2].dims(), " must have the shape of the input, ", dims);
    }
    for (Shape& output : outputs) output.Assign(dims);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<BiasPlan>();
    std::array<Dims, kernels::kMaxVariadicInputs> dims;
    dims.fill(context.outputs[0]);  // behind the inputs nobody looks
    dims[1] = context.inputs[1].dims();
    CUDAEP_ASSIGN_OR_RETURN(plan->broadcast,
                            kernels::MakeBroadcast<kernels::kMaxVariadicInputs>(context.outputs[0], dims));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const void* inputs[kTerms] = {context.input(0), context.input(1), terms_ == kTerms ? context.input(2) : nullptr};
    CUDAEP_RETURN_IF_ERROR(kernel_(
        {.inputs = inputs, .count = terms_, .y = context.output(0), .broadcast = &PlanAs<BiasPlan>(base).broadcast},
        context.stream()));
    if (base.outputs.size() < 2 || context.output(1) == nullptr) return Status::Ok();
    const uint8_t kept = 1;
    return kernels::LaunchFill(&kept, sizeof(kept), base.outputs[1].elems(), context.output(1), context.stream());
  }

 private:
  kernels::VariadicKernel kernel_;
  int terms_;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "BiasDropout",
     .types = {{"T", kFloatTypes}, {"T1", kFloatTypes}, {"T2", DataType::kBool}},
     .in_place = {{0, 0}},
     .pure = false,
     .make = Make<BiasSum>},
    {.domain = kMicrosoftDomain,
     .op = "BiasAdd",
     .types = {{"T", DataTypeSet(DataType::kFloat) | DataType::kFloat16}},
     .in_place = {{0, 0}},
     .make = Make<BiasSum>},
});

}  // namespace
}  // namespace cudaep::ops
