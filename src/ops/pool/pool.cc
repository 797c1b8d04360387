// MaxPool, AveragePool and LpPool.
#include "ops/image_layout.h"
#include "ops/pool/pool_shape.h"

namespace cudaep::ops {
namespace {

enum class PoolKind : uint8_t { kMax, kAverage, kLp };

struct PoolPlan : Plan {
  kernels::PoolShape shape;
};

class Pool : public Operator {
 public:
  static Result<std::unique_ptr<Pool>> Create(const OpInfo& info, const KernelRow& row) {
    auto op = std::make_unique<Pool>();
    CUDAEP_ASSIGN_OR_RETURN(op->window_, ParseWindow(info));
    if (op->window_.kernel.empty()) return InvalidArgument("attribute kernel_shape is missing");
    op->type_ = info.input_type(0);
    op->channels_last_ = info.domain() == kNhwcDomain;
    op->kind_ = row.VariantAs<PoolKind>();
    op->column_major_ = info.BoolOr("storage_order", false);
    op->count_padding_ = info.BoolOr("count_include_pad", false);
    // An attribute of type float in LpPool 1.
    op->p_ = info.Float("p").value_or(static_cast<float>(info.IntOr("p", 2)));
    if (!(op->p_ > 0)) return InvalidArgument("p ", op->p_, " is no norm");
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const Window window, Place(inputs[0].dims()));
    Shape y = ChannelsFirst(inputs[0].dims(), channels_last_);
    for (int d = 0; d < window.rank; ++d) y[d + 2] = window.out[static_cast<size_t>(d)];
    outputs[0] = InLayout(y, channels_last_);
    // The host turns the first output back to channels first, and takes the indices as if they were.
    if (outputs.size() > 1) outputs[1] = y;
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<PoolPlan>();
    if (context.outputs[0].elems() == 0) return PlanPtr(std::move(plan));
    const Dims x = context.inputs[0].dims();
    CUDAEP_ASSIGN_OR_RETURN(const Window window, Place(x));
    CUDAEP_ASSIGN_OR_RETURN(plan->shape, PoolShapeOf(window, type_, x, channels_last_));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const kernels::PoolShape& shape = PlanAs<PoolPlan>(plan).shape;
    if (kind_ == PoolKind::kLp) {
      return kernels::LaunchLpPool(shape, p_, context.input(0), context.output(0), context.stream());
    }
    if (kind_ == PoolKind::kAverage) {
      return kernels::LaunchAveragePool(shape, count_padding_, context.input(0), context.output(0), context.stream());
    }
    const bool has_indices = plan.outputs.size() > 1;
    return kernels::LaunchMaxPool(shape, column_major_, context.input(0), context.output(0),
                                  has_indices ? context.output<int64_t>(1) : nullptr, context.stream());
  }

 private:
  Result<Window> Place(Dims x) const {
    if (x.size() < 3) return InvalidArgument("input X ", x, " needs batch, channels and a spatial dimension");
    return PlaceWindow(window_, x.subspan(channels_last_ ? 1 : 2, x.size() - 2), window_.kernel);
  }

  WindowAttributes window_;
  DataType type_ = DataType::kFloat;
  PoolKind kind_ = PoolKind::kMax;
  bool column_major_ = false, count_padding_ = false, channels_last_ = false;
  double p_ = 2;
};

KernelRow Row(const char* op, PoolKind kind, int since, int until, std::vector<TypeConstraint> types) {
  return {.op = op,
          .since = since,
          .until = until,
          .types = std::move(types),
          .variant = static_cast<int>(kind),
          .make = Make<Pool>};
}

const RegisterRows kRows(InBothLayouts({
    Row("AveragePool", PoolKind::kAverage, 1, 22, {{"T", kernels::kAveragePoolTypes}}),
    Row("MaxPool", PoolKind::kMax, 1, 1, {{"T", kernels::kAveragePoolTypes}}),
    Row("MaxPool", PoolKind::kMax, 8, 22, {{"T", kernels::kMaxPoolTypes}, {"I", DataType::kInt64}}),
}));
const RegisterRows kNorms({Row("LpPool", PoolKind::kLp, 1, 22, {{"T", kernels::kAveragePoolTypes}})});

}  // namespace
}  // namespace cudaep::ops
