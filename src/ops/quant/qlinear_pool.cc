// com.microsoft's QLinearAveragePool and QLinearGlobalAveragePool, channels first or last.
#include "kernels/quant/qlinear_pool.h"

#include "ops/pool/pool_shape.h"
#include "ops/quant/qlinear_value.h"
#include "ops/reduce/reduction.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : size_t { kX, kXScale, kXZero, kYScale, kYZero };

Result<kernels::QLinearMean> MeanOf(TensorViews inputs) {
  CUDAEP_ASSIGN_OR_RETURN(const QLinearValue x, ReadQLinear(inputs, kXScale, kXZero));
  CUDAEP_ASSIGN_OR_RETURN(const QLinearValue y, ReadQLinear(inputs, kYScale, kYZero));
  return kernels::QLinearMean{.ratio = x.scale / y.scale, .x_zero = x.zero, .y_zero = y.zero};
}

// The dimensions of an image in X.
Result<Dims> SpatialDims(Dims x, bool channels_last) {
  if (x.size() < 3) return InvalidArgument("input X ", x, " needs batch, channels and a spatial dimension");
  return x.subspan(channels_last ? 1 : 2, x.size() - 2);
}

struct PoolPlan : Plan {
  kernels::PoolShape shape;
  kernels::QLinearMean mean;
};

class QLinearAveragePool final : public Operator {
 public:
  static Result<std::unique_ptr<QLinearAveragePool>> Create(const OpInfo& info) {
    auto op = std::make_unique<QLinearAveragePool>();
    CUDAEP_ASSIGN_OR_RETURN(op->window_, ParseWindow(info));
    if (op->window_.kernel.empty()) return InvalidArgument("attribute kernel_shape is missing");
    op->type_ = info.input_type(kX);
    op->channels_last_ = info.BoolOr("channels_last", false);
    op->count_padding_ = info.BoolOr("count_include_pad", false);
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const Window window, Place(inputs[kX].dims()));
    outputs[0].Assign(inputs[kX].dims());
    const int first = channels_last_ ? 1 : 2;
    for (int d = 0; d < window.rank; ++d) outputs[0][first + d] = window.out[static_cast<size_t>(d)];
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<PoolPlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->mean, MeanOf(context.inputs));
    if (context.outputs[0].elems() == 0) return PlanPtr(std::move(plan));
    const Dims x = context.inputs[kX].dims();
    CUDAEP_ASSIGN_OR_RETURN(const Window window, Place(x));
    CUDAEP_ASSIGN_OR_RETURN(plan->shape, PoolShapeOf(window, type_, x, channels_last_));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& p = PlanAs<PoolPlan>(plan);
    return kernels::LaunchQLinearPool(p.shape, count_padding_, p.mean, context.input(kX), context.output(0),
                                      context.stream());
  }

 private:
  Result<Window> Place(Dims x) const {
    CUDAEP_ASSIGN_OR_RETURN(const Dims spatial, SpatialDims(x, channels_last_));
    return PlaceWindow(window_, spatial, window_.kernel);
  }

  WindowAttributes window_;
  DataType type_ = DataType::kUint8;
  bool channels_last_ = false, count_padding_ = false;
};

struct GlobalPlan : Plan {
  kernels::QLinearMean mean;
  std::unique_ptr<ReductionPlan> reduction;
};

class QLinearGlobalAveragePool final : public Operator {
 public:
  QLinearGlobalAveragePool(DataType type, bool channels_last)
      : kernel_(kernels::FindReduceKernel(kMean, type)), type_(type), channels_last_(channels_last) {}

  static Result<std::unique_ptr<QLinearGlobalAveragePool>> Create(const OpInfo& info) {
    return std::make_unique<QLinearGlobalAveragePool>(info.input_type(kX), info.BoolOr("channels_last", false));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(SpatialDims(inputs[kX].dims(), channels_last_).status());
    outputs[0].Assign(inputs[kX].dims());
    const int first = channels_last_ ? 1 : 2;
    for (int d = first; d < first + outputs[0].rank() - 2; ++d) outputs[0][d] = 1;
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const Dims x = context.inputs[kX].dims();
    auto plan = std::make_unique<GlobalPlan>();
    CUDAEP_ASSIGN_OR_RETURN(const Dims spatial, SpatialDims(x, channels_last_));
    const int64_t elems = ElementCount(spatial);
    CUDAEP_ASSIGN_OR_RETURN(plan->mean, MeanOf(context.inputs));
    const int64_t seen[] = {channels_last_ ? x[0] : x[0] * x[1], elems, channels_last_ ? x.back() : 1};
    const bool reduced[] = {false, true, false};
    CUDAEP_ASSIGN_OR_RETURN(plan->reduction, PlanReductionOf(kMean, seen, reduced, type_, context));
    plan->workspace_bytes = plan->reduction->workspace_bytes;
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& p = PlanAs<GlobalPlan>(plan);
    return EnqueueReductionOf(
        kernel_, *p.reduction, context,
        {.op = kMean, .x = context.input(kX), .y = context.output(0), .workspace = context.workspace, .mean = p.mean});
  }

 private:
  static constexpr auto kMean = kernels::ReduceOp::kCodeMean;

  kernels::ReduceKernel kernel_;
  DataType type_;
  bool channels_last_;
};

KernelRow Row(const char* op, OperatorFactory make) {
  return {.domain = kMicrosoftDomain,
          .op = op,
          .types = {{"T", kInt8Types}},
          .host_inputs = {kXScale, kXZero, kYScale, kYZero},
          .make = make};
}

const RegisterRows kRows({
    Row("QLinearAveragePool", Make<QLinearAveragePool>),
    Row("QLinearGlobalAveragePool", Make<QLinearGlobalAveragePool>),
});

}  // namespace
}  // namespace cudaep::ops
