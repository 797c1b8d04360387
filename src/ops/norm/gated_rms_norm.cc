// com.microsoft's GatedRMSNorm: rows are as long as the scale, several of them may make the last dimension.
#include "kernels/norm/gated_norm.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

class GatedRmsNorm final : public Operator {
 public:
  static Result<std::unique_ptr<GatedRmsNorm>> Create(const OpInfo& info) {
    auto op = std::make_unique<GatedRmsNorm>();
    const std::string activation = info.StringOr("activation", "silu");
    op->norm_ = {
        .type = info.input_type(0), .sigmoid = activation == "sigmoid", .epsilon = info.FloatOr("epsilon", 1e-5f)};
    if (activation == "silu" || activation == "swish" || activation == "sigmoid") return op;
    return InvalidArgument("activation '", activation, "'");
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims x = inputs[0].dims(), scale = inputs[1].dims(), gate = inputs[2].dims();
    if (!SameDims(x, gate)) return InvalidArgument("X ", x, " and gate ", gate, " must have one shape");
    if (x.empty() || scale.size() != 1 || scale[0] == 0 || x.back() % scale[0] != 0) {
      return InvalidArgument("scale ", scale, " does not divide the last dimension of ", x);
    }
    outputs[0].Assign(x);
    return Status::Ok();
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    kernels::GatedNorm norm = norm_;
    norm.columns = context.inputs[1].dim[0];
    norm.rows = plan.outputs[0].elems() / norm.columns;
    norm.x = context.input(0);
    norm.scale = context.input(1);
    norm.gate = context.input(2);
    norm.y = context.output(0);
    return kernels::LaunchGatedNorm(norm, context.stream());
  }

 private:
  kernels::GatedNorm norm_;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "GatedRMSNorm",
     .types = {{"T", kFloatTypesNoDouble}},
     .in_place = {{0, 0}, {2, 0}},
     .make = Make<GatedRmsNorm>},
});

}  // namespace
}  // namespace cudaep::ops
