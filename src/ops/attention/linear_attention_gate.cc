// com.microsoft's LinearAttentionGate.
#include "kernels/attention/linear_gate.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : int { kA, kBias, kScale, kB };

class LinearAttentionGate final : public Operator {
 public:
  explicit LinearAttentionGate(DataType type) : type_(type) {}

  static Result<std::unique_ptr<LinearAttentionGate>> Create(const OpInfo& info) {
    if (info.has_output(1) && !info.has_input(kB)) return InvalidArgument("the output beta needs the input b");
    return std::make_unique<LinearAttentionGate>(info.input_type(kA));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims a = inputs[kA].dims(), bias = inputs[kBias].dims(), scale = inputs[kScale].dims();
    if (a.empty() || !SameDims(bias, a.last(1)) || !SameDims(scale, a.last(1))) {
      return InvalidArgument("dt_bias ", bias, " and decay_scale ", scale, " must be the last dimension of ", a);
    }
    if (HasInput(inputs, kB) && !SameDims(inputs[kB].dims(), a)) {
      return InvalidArgument("b ", inputs[kB].dims(), " must be ", a);
    }
    for (Shape& output : outputs) output.Assign(a);
    return Status::Ok();
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const Shape& shape = plan.outputs[0];
    return kernels::LaunchLinearGates({.type = type_,
                                       .elems = shape.elems(),
                                       .heads = shape[shape.rank() - 1],
                                       .a = context.input(kA),
                                       .bias = context.input<float>(kBias),
                                       .scale = context.input<float>(kScale),
                                       .b = InputAt(context.inputs, kB).data,
                                       .decay = context.output(0),
                                       .beta = plan.outputs.size() > 1 ? context.output(1) : nullptr},
                                      context.stream());
  }

 private:
  DataType type_;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "LinearAttentionGate",
     .types = {{"T", kFloatTypesNoDouble}, {"TF", DataType::kFloat}},
     .in_place = {{kA, 0}, {kB, 1}},
     .make = Make<LinearAttentionGate>},
});

}  // namespace
}  // namespace cudaep::ops
