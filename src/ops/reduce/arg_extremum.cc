// ArgMax and ArgMin: where along an axis the extremum is. NaN counts as the extremum.
#include "ops/reduce/reduction.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

using kernels::ReduceOp;

class ArgExtremum final : public Operator {
 public:
  ArgExtremum(const OpInfo& info, ReduceOp op, kernels::ReduceKernel kernel)
      : op_(op),
        kernel_(kernel),
        axis_(info.IntOr("axis", 0)),
        keep_dims_(info.BoolOr("keepdims", true)),
        last_(info.BoolOr("select_last_index", false)) {}

  static Result<std::unique_ptr<ArgExtremum>> Create(const OpInfo& info, const KernelRow& row) {
    const auto op = row.VariantAs<ReduceOp>();
    const kernels::ReduceKernel kernel = kernels::FindReduceKernel(op, info.input_type(0));
    if (kernel == nullptr) return NotSupported("element type ", DataTypeName(info.input_type(0)));
    return std::make_unique<ArgExtremum>(info, op, kernel);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims dims = inputs[0].dims();
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, inputs[0].rank));
    outputs[0] = Shape();
    for (int i = 0; i < inputs[0].rank; ++i) {
      if (i != axis) {
        outputs[0].Append(dims[static_cast<size_t>(i)]);
      } else if (keep_dims_) {
        outputs[0].Append(1);
      }
    }
    const bool nothing = inputs[0].dim[axis] == 0 && outputs[0].elems() != 0;
    return nothing ? InvalidArgument("axis ", axis_, " of input ", dims, " is empty") : Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, context.inputs[0].rank));
    DimFlags reduced(static_cast<size_t>(context.inputs[0].rank));
    reduced[static_cast<size_t>(axis)] = true;
    return PlanReduction(op_, context, reduced);
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return EnqueueReduction(op_, kernel_, plan, context, last_);
  }

 private:
  ReduceOp op_;
  kernels::ReduceKernel kernel_;
  int64_t axis_;
  bool keep_dims_, last_;
};

KernelRow Row(const char* name, ReduceOp op) {
  return {.op = name,
          .since = 1,
          .until = 13,
          .types = {{"T", kernels::ReduceTypes(op)}},
          .variant = static_cast<int>(op),
          .make = Make<ArgExtremum>};
}

const RegisterRows kRows({Row("ArgMax", ReduceOp::kArgMax), Row("ArgMin", ReduceOp::kArgMin)});

}  // namespace
}  // namespace cudaep::ops
