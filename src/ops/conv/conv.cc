// Conv and ConvTranspose, and what is made of Conv: NhwcConv, on channels-last images, its weight as Conv has it, and
// FusedConv, activation(conv(X, W) + B + Z). Compiled regions make the latter as `Conv` of the fused domain, with
// "activation" as ActivationName has it, "activation_params", "channels_last", "adds_last" for activation(conv(X, W) +
// B) + Z, and the parts that X, Z and Y may be (ops/conv/conv_parts.h): Y is what a fifth input becomes by writing its
// part, or a new tensor of which nothing else is written.
#include <algorithm>

#include "ops/activation_attributes.h"
#include "ops/conv/channels_last.h"
#include "ops/conv/conv_parts.h"
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
    options_.product.constant_bias = info.is_constant(2);
    options_.product.compiles &= !info.has_input(2) || options_.product.constant_bias;
  }

  static Result<std::unique_ptr<Convolution>> Create(const OpInfo& info) {
    CUDAEP_ASSIGN_OR_RETURN(ConvAttributes attributes, ParseConv(info));
    CUDAEP_ASSIGN_OR_RETURN(Epilogue activation, ParseActivation(info));
    const bool is_fused = info.domain() == kFusedDomain;
    if (is_fused) activation.adds_last = info.BoolOr("adds_last", false);
    auto op = std::make_unique<Convolution>(std::move(attributes), activation, info);
    if (is_fused) {
      CUDAEP_ASSIGN_OR_RETURN(op->parts_, ParseConvParts(info, op->options_, op->attributes_,
                                                         op->activation_.activation, op->channels_last_));
    }
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const dnn::ConvProblem problem, ProblemOf(inputs));
    outputs[0] = InLayout(OutputOf(problem), channels_last_);
    if (parts_.y_first < 0) return Status::Ok();
    outputs[0][outputs[0].rank() - 1] = parts_.y_channels;
    const bool extends = inputs.size() > kExtended && inputs[kExtended].present();
    if (extends && !SameDims(inputs[kExtended].dims(), outputs[0])) {
      return InvalidArgument("what is extended, ", inputs[kExtended].dims(),
                             ", must have the dimensions of the result ", outputs[0]);
    }
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
    const void* const extended = given(kExtended);
    if (extended != nullptr && extended != context.output(0)) {
      CUDAEP_RETURN_IF_ERROR(
          device::MemcpyAsync(context.output(0), extended, context.inputs[kExtended].bytes(), context.stream()));
    }
    return EnqueueConvRun(PlanAs<ConvRunPlan>(plan), context.runtime,
                          {.x = PartOf(context.input(0), parts_.x_first),
                           .w = context.input(1),
                           .bias = given(2),
                           .residual = PartOf(given(3), parts_.residual_first),
                           .y = const_cast<void*>(PartOf(context.output(0), parts_.y_first)),
                           .workspace = context.workspace});
  }

 private:
  static constexpr size_t kExtended = 4;

  const void* PartOf(const void* image, int64_t first) const {
    const int64_t skipped = std::max<int64_t>(first, 0) * static_cast<int64_t>(SizeOf(type_));
    return image == nullptr ? nullptr : static_cast<const std::byte*>(image) + skipped;
  }

  // The channels of an image, of which `channels` from `first` on are used: dims[1] becomes those.
  static Result<int64_t> TakePart(int64_t first, int64_t channels, Shape& dims) {
    const int64_t all = dims.rank() > 1 ? dims[1] : 0;
    if (first < 0) return int64_t{0};
    if (dims.rank() < 3 || channels <= 0 || first > all - channels) {
      return InvalidArgument("an image ", dims.dims(), " has no ", channels, " channels from ", first, " on");
    }
    dims[1] = channels;
    return all;
  }

  Result<dnn::ConvProblem> ProblemOf(TensorViews inputs) const {
    const bool has_bias = inputs.size() > 2 && inputs[2].present();
    const Dims bias = has_bias ? inputs[2].dims() : Dims();
    Shape x = ChannelsFirst(inputs[0].dims(), channels_last_);
    const int64_t filter_channels = inputs[1].rank > 1 ? inputs[1].dim[1] : 0;
    CUDAEP_ASSIGN_OR_RETURN(const int64_t x_pitch, TakePart(parts_.x_first, filter_channels, x));
    CUDAEP_ASSIGN_OR_RETURN(dnn::ConvProblem problem,
                            kPlace(attributes_, x, inputs[1].dims(), has_bias ? &bias : nullptr));
    problem.types = lib::MixedTypes::Of(type_);
    problem.layout = LayoutOf(channels_last_);
    problem.epilogue.activation = activation_.activation;
    problem.epilogue.parameters = activation_.parameters;
    problem.x_pitch = x_pitch;
    if (parts_.y_first >= 0) {
      problem.y_pitch = parts_.y_channels;
      if (parts_.y_first > parts_.y_channels - problem.out_channels) {
        return InvalidArgument("a result of ", parts_.y_channels, " channels has no ", problem.out_channels, " from ",
                               parts_.y_first, " on");
      }
    }
    if (inputs.size() > 3 && inputs[3].present()) {
      Shape z = ChannelsFirst(inputs[3].dims(), channels_last_);
      CUDAEP_ASSIGN_OR_RETURN(problem.residual_pitch, TakePart(parts_.residual_first, problem.out_channels, z));
      if (!SameDims(z, OutputOf(problem))) {
        return InvalidArgument("the sum Z ", inputs[3].dims(), " must have the dimensions of the result ",
                               InLayout(OutputOf(problem), channels_last_));
      }
      problem.epilogue.beta = 1.0f;
      problem.epilogue.adds_last = activation_.adds_last;
    }
    return problem;
  }

  ConvAttributes attributes_;
  Epilogue activation_;
  ConvParts parts_;
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
    {.domain = kFusedDomain,
     .op = "Conv",
     .types = {{"T", kFloatTypes}},
     .extends = {{4, 0}},
     .make = Make<Convolution<PlaceConv>>},
});

}  // namespace
}  // namespace cudaep::ops
