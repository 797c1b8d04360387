// Conv and ConvTranspose, and what is made of Conv: NhwcConv, on channels-last images, its weight as Conv has it, and
// FusedConv, activation(conv(X, W) + B + Z). Compiled regions make the latter as `Conv` of the fused domain, with
// "activation" as ActivationName has it, "activation_params" and "channels_last".
#include "ops/activation_attributes.h"
#include "ops/conv/channels_last.h"
#include "ops/conv/conv_run.h"
#include "ops/image_layout.h"

namespace cudaep::ops {
namespace {

using Place = Result<dnn::ConvProblem> (*)(const ConvAttributes& attributes, Dims x, Dims w, const Dims* bias);

dnn::Layout LayoutOf(bool channels_last) {
  return channels_last ? dnn::Layout::kChannelsLast : dnn::Layout::kChannelsFirst;
}

bool IsChannelsLast(const OpInfo& info) {
  return info.domain() == kNhwcDomain || info.op_type() == "NhwcConv" || info.BoolOr("channels_last", false);
}

template <Place kPlace>
class Convolution : public Operator {
 public:
  Convolution(ConvAttributes attributes, const Epilogue& activation, const OpInfo& info)
      : attributes_(std::move(attributes)),
        activation_(activation),
        options_(info.settings()),
        type_(info.input_type(0)),
        channels_last_(IsChannelsLast(info)) {
    options_.product.constant_a = info.is_constant(1);
    options_.product.compiles &= !info.has_input(2) || info.is_constant(2);
  }

  static Result<std::unique_ptr<Convolution>> Create(const OpInfo& info) {
    CUDAEP_ASSIGN_OR_RETURN(ConvAttributes attributes, ParseConv(info));
    CUDAEP_ASSIGN_OR_RETURN(const Epilogue activation, ParseActivation(info));
    return std::make_unique<Convolution>(std::move(attributes), activation, info);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const dnn::ConvProblem problem, ProblemOf(inputs));
    outputs[0] = InLayout(OutputOf(problem), channels_last_);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const dnn::ConvProblem problem, ProblemOf(context.inputs));
    return PlanConvRun(options_, problem, context.runtime, context.inputs[1].packed);
  }

  Result<size_t> PackedBytes(int index, const TensorView& weight) const override {
    if (index != 1 || kPlace != PlaceConv) return size_t{0};
    return PackedConvWeights(options_, LayoutOf(channels_last_), attributes_.groups, weight);
  }

  Status Pack(int /*index*/, const TensorView& weight, void* packed, StreamContext& runtime) const override {
    return PackConvWeights(weight, packed, runtime);
  }

  LibrarySet libraries() const override { return {.blas = true, .dnn = options_.path_may_be_library()}; }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto given = [&](size_t index) {
      return context.inputs.size() > index ? context.input(static_cast<int>(index)) : nullptr;
    };
    return EnqueueConvRun(PlanAs<ConvRunPlan>(plan), context.runtime,
                          {.x = context.input(0),
                           .w = context.input(1),
                           .bias = given(2),
                           .residual = given(3),
                           .y = context.output(0),
                           .workspace = context.workspace});
  }

 private:
  Result<dnn::ConvProblem> ProblemOf(TensorViews inputs) const {
    const bool has_bias = inputs.size() > 2 && inputs[2].present();
    const Dims bias = has_bias ? inputs[2].dims() : Dims();
    const Shape x = ChannelsFirst(inputs[0].dims(), channels_last_);
    CUDAEP_ASSIGN_OR_RETURN(dnn::ConvProblem problem,
                            kPlace(attributes_, x, inputs[1].dims(), has_bias ? &bias : nullptr));
    problem.types = lib::MixedTypes::Of(type_);
    problem.layout = LayoutOf(channels_last_);
    problem.epilogue.activation = activation_.activation;
    problem.epilogue.parameters = activation_.parameters;
    if (inputs.size() > 3 && inputs[3].present()) {
      const Shape y = InLayout(OutputOf(problem), channels_last_);
      if (!SameDims(inputs[3].dims(), y)) {
        return InvalidArgument("the sum Z ", inputs[3].dims(), " must have the dimensions of the result ", y);
      }
      problem.epilogue.beta = 1.0f;
    }
    return problem;
  }

  ConvAttributes attributes_;
  Epilogue activation_;
  ConvOptions options_;
  DataType type_;
  bool channels_last_;
};

const RegisterRows kRows(InBothLayouts({
    {.op = "Conv", .since = 1, .until = 22, .types = {{"T", kFloatTypes}}, .make = Make<Convolution<PlaceConv>>},
    {.op = "ConvTranspose",
     .since = 1,
     .until = 22,
     .types = {{"T", kFloatTypes}},
     .make = Make<Convolution<PlaceConvTranspose>>},
}));
const RegisterRows kContribRows({
    {.domain = kMicrosoftDomain,
     .op = "NhwcConv",
     .types = {{"T", kFloatTypes - kChannelsFirstOnly}},
     .make = Make<Convolution<PlaceConv>>},
    {.domain = kMicrosoftDomain,
     .op = "FusedConv",
     .types = {{"T", kFloatTypes - kChannelsFirstOnly}},
     .make = Make<Convolution<PlaceConv>>},
    {.domain = kFusedDomain, .op = "Conv", .types = {{"T", kFloatTypes}}, .make = Make<Convolution<PlaceConv>>},
});

}  // namespace
}  // namespace cudaep::ops
