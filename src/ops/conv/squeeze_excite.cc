// SqueezeExcite, which compiled regions make of a channels-last image that is scaled by gates of its channels' means:
// x * second(W2 * first(W1 * means + B1) + B2), with the weights of the two convolutions and "squeeze_activation" and
// "activation", with their "_params", as ActivationName has them.
#include "kernels/conv/squeeze_excite.h"

#include "core/checked_math.h"
#include "ops/activation_attributes.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : int { kX, kW1, kB1, kW2, kB2 };

struct SqueezePlan : Plan {
  kernels::SqueezeExcite problem;
  int blocks = 1;
};

// Weights [outputs, inputs] of one tap, and a bias of as many outputs where there is one.
Status CheckLayer(const TensorView& weights, const TensorView* bias, int64_t inputs) {
  const bool fits = weights.rank >= 3 && weights.dim[1] == inputs && weights.elems() == weights.dim[0] * inputs;
  if (!fits) return InvalidArgument("weights ", weights.dims(), " do not fit ", inputs, " channels and one tap");
  if (bias == nullptr || SameDims(bias->dims(), weights.dims().first(1))) return Status::Ok();
  return InvalidArgument("the bias ", bias->dims(), " does not fit weights ", weights.dims());
}

class SqueezeExcite final : public Operator {
 public:
  static Result<std::unique_ptr<SqueezeExcite>> Create(const OpInfo& info) {
    auto op = std::make_unique<SqueezeExcite>();
    CUDAEP_ASSIGN_OR_RETURN(const Epilogue first,
                            ParseActivation(info, "squeeze_activation", "squeeze_activation_params"));
    CUDAEP_ASSIGN_OR_RETURN(const Epilogue second, ParseActivation(info));
    op->problem_ = {.type = info.input_type(kX),
                    .first = first.activation,
                    .second = second.activation,
                    .first_parameters = first.parameters,
                    .second_parameters = second.parameters};
    CUDAEP_ASSIGN_OR_RETURN(const auto* device, device::GetDeviceInfo(info.settings().device_ordinal));
    if (!kernels::SharesImages(*device) && !device->simulated) {
      return NotSupported("an image in one launch on ", device->name, ", whose blocks cannot share it");
    }
    for (const int weights : {kW1, kW2}) {
      const auto constant = info.constant(weights);
      if (!constant) return NotSupported("weights that are no constant");
      if (constant->dims.rank() < 2 || constant->dims[0] > kernels::kMostExcited || constant->dims[0] < 1) {
        return NotSupported("weights ", constant->dims, "; 1 to ", kernels::kMostExcited, " channels are offered");
      }
    }
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims x = inputs[kX].dims();
    if (x.size() < 3) return InvalidArgument("X ", x, " is no image");
    const auto bias = [&](int i) { return HasInput(inputs, i) ? &inputs[static_cast<size_t>(i)] : nullptr; };
    CUDAEP_RETURN_IF_ERROR(CheckLayer(inputs[kW1], bias(kB1), x.back()));
    CUDAEP_RETURN_IF_ERROR(CheckLayer(inputs[kW2], bias(kB2), inputs[kW1].dim[0]));
    if (inputs[kW2].dim[0] != x.back()) {
      return InvalidArgument(inputs[kW2].dim[0], " gates for the ", x.back(), " channels of X ", x);
    }
    outputs[0] = Shape(x);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<SqueezePlan>();
    const Dims x = context.inputs[kX].dims();
    plan->problem = problem_;
    plan->problem.batch = x[0];
    plan->problem.pixels = ElementCount(x.subspan(1, x.size() - 2));
    plan->problem.channels = static_cast<int32_t>(x.back());
    plan->problem.squeezed = static_cast<int32_t>(context.inputs[kW1].dim[0]);
    plan->blocks = kernels::SqueezeExciteBlocks(plan->problem, context.device);
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& p = PlanAs<SqueezePlan>(plan);
    const auto optional = [&](int i) { return HasInput(context.inputs, i) ? context.input(i) : nullptr; };
    return kernels::LaunchSqueezeExcite(p.problem, p.blocks,
                                        {.x = context.input(kX),
                                         .w1 = context.input(kW1),
                                         .b1 = optional(kB1),
                                         .w2 = context.input(kW2),
                                         .b2 = optional(kB2),
                                         .y = context.output(0)},
                                        context.stream());
  }

 private:
  kernels::SqueezeExcite problem_;  // without what depends on the image
};

const RegisterRows kRows(
    {{.domain = kFusedDomain, .op = "SqueezeExcite", .types = {{"T", kFloat16Types}}, .make = Make<SqueezeExcite>}});

}  // namespace
}  // namespace cudaep::ops
