// LpNormalization: vectors along an axis divided by their norm, and MeanVarianceNormalization: by mean and deviation of
// any axes. A vector of zeros stays one.
#include "ops/norm/normalization.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

class AxesNorm : public Operator {
 public:
  AxesNorm(const NormSpec& spec, std::vector<int64_t> axes) : norm_(spec), axes_(std::move(axes)) {}

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(Reduced(inputs[0].rank).status());
    outputs[0].Assign(inputs[0].dims());
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    NormView view{.dims = Shape(context.inputs[0].dims()), .reduced = {}};
    CUDAEP_ASSIGN_OR_RETURN(view.reduced, Reduced(context.inputs[0].rank));
    return norm_.MakePlan(view, context);
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return norm_.Enqueue(plan, context, nullptr, nullptr);
  }

 private:
  Result<DimFlags> Reduced(int rank) const {
    DimFlags reduced(static_cast<size_t>(rank));
    for (const int64_t axis : axes_) {
      CUDAEP_ASSIGN_OR_RETURN(const int index, NormalizeAxis(axis, rank));
      reduced[static_cast<size_t>(index)] = true;
    }
    return reduced;
  }

  Normalization norm_;
  std::vector<int64_t> axes_;
};

Result<OperatorPtr> MakeLpNormalization(const OpInfo& info, const KernelRow&) {
  const int64_t p = info.IntOr("p", 2);
  if (p != 1 && p != 2) return InvalidArgument("p ", p, "; norms 1 and 2 are defined");
  const NormSpec spec{.type = info.input_type(0), .statistic = kernels::RowStatistic::kL2, .l1 = p == 1};
  return OperatorPtr(std::make_unique<AxesNorm>(spec, std::vector<int64_t>{info.IntOr("axis", -1)}));
}

Result<OperatorPtr> MakeMeanVarianceNormalization(const OpInfo& info, const KernelRow&) {
  const NormSpec spec{.type = info.input_type(0), .statistic = kernels::RowStatistic::kDeviation, .epsilon = 1e-9};
  return OperatorPtr(std::make_unique<AxesNorm>(spec, info.IntsOr("axes", {0, 2, 3})));
}

KernelRow Row(const char* op, int since, int until, OperatorFactory make) {
  return {.op = op, .since = since, .until = until, .types = {{"T", kFloatTypes}}, .in_place = {{0, 0}}, .make = make};
}

const RegisterRows kRows({
    Row("LpNormalization", 1, 22, MakeLpNormalization),
    Row("MeanVarianceNormalization", 9, 13, MakeMeanVarianceNormalization),
});

}  // namespace
}  // namespace cudaep::ops
