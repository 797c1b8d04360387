// Global pooling: a reduction of all spatial dimensions, to 1 each.
#include "ops/image_layout.h"
#include "ops/reduce/reduction.h"

namespace cudaep::ops {
namespace {

using kernels::ReduceOp;

class GlobalPool : public Operator {
 public:
  GlobalPool(const OpInfo& info, ReduceOp op, kernels::ReduceKernel kernel)
      : op_(op),
        kernel_(kernel),
        channels_last_(info.domain() == kNhwcDomain),
        deterministic_(info.settings().deterministic) {}

  static Result<std::unique_ptr<GlobalPool>> Create(const OpInfo& info, const KernelRow& row) {
    CUDAEP_ASSIGN_OR_RETURN(const ReduceOp op, OpOf(info, row.VariantAs<ReduceOp>()));
    const kernels::ReduceKernel kernel = kernels::FindReduceKernel(op, info.input_type(0));
    if (kernel == nullptr) return NotSupported("element type ", DataTypeName(info.input_type(0)));
    return std::make_unique<GlobalPool>(info, op, kernel);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims dims = inputs[0].dims();
    if (dims.size() < 3) return InvalidArgument("input ", dims, " must have batch, channels and spatial dimensions");
    const DimFlags spatial = Spatial(dims.size());
    outputs[0].Assign(dims);
    for (size_t i = 0; i < dims.size(); ++i) {
      if (spatial[i]) outputs[0][static_cast<int>(i)] = 1;
    }
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    return PlanReduction(op_, context, Spatial(context.inputs[0].dims().size()), deterministic_);
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return EnqueueReduction(op_, kernel_, plan, context);
  }

 private:
  // The row's operation, of norms the one that the node asks for.
  static Result<ReduceOp> OpOf(const OpInfo& info, ReduceOp op) {
    if (op != ReduceOp::kL2) return op;
    // An attribute of type float in version 1.
    const double p = info.since_version() == 1 ? info.FloatOr("p", 2.0f) : static_cast<double>(info.IntOr("p", 2));
    if (p == 1) return ReduceOp::kL1;
    if (p == 2) return ReduceOp::kL2;
    return NotSupported("p ", p, "; norms 1 and 2 are offered");
  }

  DimFlags Spatial(size_t rank) const {
    DimFlags spatial(rank, true);
    spatial[0] = spatial[channels_last_ ? rank - 1 : 1] = false;
    return spatial;
  }

  ReduceOp op_;
  kernels::ReduceKernel kernel_;
  bool channels_last_, deterministic_;
};

KernelRow Row(const char* op, ReduceOp variant) {
  return {.op = op,
          .since = 1,
          .until = 22,
          .types = {{"T", kFloatTypes}},
          .variant = static_cast<int>(variant),
          .make = Make<GlobalPool>};
}

const RegisterRows kRows(InBothLayouts({
    Row("GlobalAveragePool", ReduceOp::kMean),
    Row("GlobalMaxPool", ReduceOp::kMax),
}));
const RegisterRows kNorms({Row("GlobalLpPool", ReduceOp::kL2)});

}  // namespace
}  // namespace cudaep::ops
