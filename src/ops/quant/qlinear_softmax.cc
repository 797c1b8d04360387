// com.microsoft's QLinearSoftmax.
#include "kernels/quant/qlinear_softmax.h"

#include "ops/quant/qlinear_value.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : size_t { kX, kXScale, kXZero, kYScale, kYZero };

struct QLinearSoftmaxPlan : Plan {
  kernels::QLinearSoftmax softmax;
};

class QLinearSoftmax final : public Operator {
 public:
  QLinearSoftmax(DataType type, int64_t axis, bool flattens) : type_(type), axis_(axis), flattens_(flattens) {}

  // Softmax before opset 13 takes all dimensions from the axis on for one.
  static Result<std::unique_ptr<QLinearSoftmax>> Create(const OpInfo& info) {
    const std::optional<int64_t> opset = info.Int("opset");
    if (!opset) return InvalidArgument("attribute opset is missing");
    return std::make_unique<QLinearSoftmax>(info.input_type(kX), info.IntOr("axis", -1), *opset < 13);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(NormalizeAxis(axis_, inputs[kX].rank).status());
    outputs[0].Assign(inputs[kX].dims());
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const Dims dims = context.inputs[kX].dims();
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, context.inputs[kX].rank));
    CUDAEP_ASSIGN_OR_RETURN(const QLinearValue x, ReadQLinear(context.inputs, kXScale, kXZero));
    CUDAEP_ASSIGN_OR_RETURN(const QLinearValue y, ReadQLinear(context.inputs, kYScale, kYZero));
    const auto at = static_cast<size_t>(axis);
    const int64_t behind = ElementCount(dims.subspan(at + 1));
    auto plan = std::make_unique<QLinearSoftmaxPlan>();
    plan->softmax = {.outer = ElementCount(dims.first(at)),
                     .axis = flattens_ ? dims[at] * behind : dims[at],
                     .inner = flattens_ ? 1 : behind,
                     .scale = x.scale,
                     .x_flip = kernels::CodeCoding::Of(x.scale, x.zero, type_).flip,
                     .y = kernels::CodeRounding::Of(kernels::CodeCoding::Of(y.scale, y.zero, type_))};
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchQLinearSoftmax(PlanAs<QLinearSoftmaxPlan>(plan).softmax, context.input(kX), nullptr,
                                         context.output(0), context.stream());
  }

 private:
  DataType type_;
  int64_t axis_;
  bool flattens_;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "QLinearSoftmax",
     .types = {{"T", kInt8Types}},
     .host_inputs = {kXScale, kXZero, kYScale, kYZero},
     .make = Make<QLinearSoftmax>},
});

}  // namespace
}  // namespace cudaep::ops
