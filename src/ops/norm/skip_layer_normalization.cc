// SkipLayerNormalization and SkipSimplifiedLayerNormalization: normalisation of input + skip + bias, the sum being an
// output of its own. All arithmetic is fp32, which is what the option strict_skip_layer_norm asks for.
#include "ops/norm/layer_norm.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

constexpr int kMeanOutput = 1, kInvStdOutput = 2, kSumOutput = 3;

using kernels::RowStatistic;

class SkipLayerNorm : public Operator {
 public:
  SkipLayerNorm(const OpInfo& info, RowStatistic statistic)
      : type_(info.input_type(0)),
        rms_(statistic == RowStatistic::kRms),
        beta_input_(!rms_ && info.has_input(3) ? 3 : kAbsent),
        bias_input_(info.has_input(rms_ ? 3 : 4) ? (rms_ ? 3 : 4) : kAbsent),
        outputs_(info.output_count()),
        constant_affine_(IsConstantOrAbsent(info, 2) && IsConstantOrAbsent(info, beta_input_) &&
                         IsConstantOrAbsent(info, bias_input_)),
        forced_(ForcedKernel(info.settings().norm_path)),
        epsilon_(info.FloatOr("epsilon", 1e-12f)) {}

  static Result<std::unique_ptr<SkipLayerNorm>> Create(const OpInfo& info, const KernelRow& row) {
    return std::make_unique<SkipLayerNorm>(info, row.VariantAs<RowStatistic>());
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims dims = inputs[0].dims(), skip = inputs[1].dims();
    if (dims.size() < 2) return InvalidArgument("input ", dims, " must have 2 dimensions or more");
    // [1,S,H] and [S,H] repeat over the batch.
    const size_t rows_at = skip.size() == dims.size() && !skip.empty() && skip[0] == 1 ? 1 : 0;
    const Dims repeated = skip.subspan(rows_at);
    const bool fits = SameDims(skip, dims) || (dims.size() == 3 && SameDims(repeated, dims.subspan(1)));
    if (!fits) return InvalidArgument("skip ", skip, " neither has the shape of input ", dims, " nor repeats over it");
    for (const int i : {2, beta_input_, bias_input_}) {
      if (i == kAbsent) continue;
      const Dims vector = inputs[static_cast<size_t>(i)].dims();
      if (vector.size() != 1 || vector[0] != dims.back()) {
        return InvalidArgument("input ", i, " has shape ", vector, ", expected [", dims.back(), "]");
      }
    }
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].Assign(dims);
    for (size_t i = kMeanOutput; i < outputs.size() && i <= kInvStdOutput; ++i) outputs[i][inputs[0].rank - 1] = 1;
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const Dims dims = context.inputs[0].dims();
    auto plan = std::make_unique<LayerNormPlan>();
    plan->elems = dims.back();
    plan->rows = ElementCount(dims.subspan(0, dims.size() - 1));
    const int64_t skip_rows = ElementCount(context.inputs[1].dims().subspan(0, context.inputs[1].dims().size() - 1));
    plan->skip_rows = std::max<int64_t>(skip_rows, 1);
    plan->scale.columns = plan->beta.columns = plan->elems;
    CUDAEP_ASSIGN_OR_RETURN(plan->kernel, kernels::PlanLayerNorm({.x_type = type_,
                                                                  .y_type = type_,
                                                                  .rows = plan->rows,
                                                                  .elems = plan->elems,
                                                                  .same_affine = true,
                                                                  .skip = true},
                                                                 context.device, forced_));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<LayerNormPlan>(base);
    const auto input = [&](int i) { return i == kAbsent ? nullptr : context.input(i); };
    const auto output = [&](int i) { return i < outputs_ ? context.output(i) : nullptr; };
    return kernels::LaunchLayerNorm({.x_type = type_,
                                     .y_type = type_,
                                     .x = context.input(0),
                                     .skip = context.input(1),
                                     .bias = input(bias_input_),
                                     .scale = context.input(2),
                                     .beta = input(beta_input_),
                                     .y = context.output(0),
                                     .sum = output(kSumOutput),
                                     .mean = output(kMeanOutput),
                                     .inv_std = output(kInvStdOutput),
                                     .rows = plan.rows,
                                     .elems = plan.elems,
                                     .skip_rows = plan.skip_rows,
                                     .scale_map = plan.scale,
                                     .beta_map = plan.beta,
                                     .epsilon = epsilon_,
                                     .statistic = rms_ ? RowStatistic::kRms : RowStatistic::kVariance,
                                     .constant_affine = constant_affine_,
                                     .plans = &plan.kernel},
                                    context.stream());
  }

 private:
  static constexpr int kAbsent = -1;

  static bool IsConstantOrAbsent(const OpInfo& info, int input) { return input == kAbsent || info.is_constant(input); }

  DataType type_;
  bool rms_;
  int beta_input_, bias_input_;
  int outputs_;
  bool constant_affine_;
  kernels::NormChoice forced_;
  double epsilon_;
};

KernelRow Row(const char* op, RowStatistic statistic) {
  return {.domain = kMicrosoftDomain,
          .op = op,
          .types = {{"T", kFloatTypesNoDouble}, {"U", DataType::kFloat}},
          .in_place = {{0, 0}},
          .variant = static_cast<int>(statistic),
          .make = Make<SkipLayerNorm>};
}

const RegisterRows kRows({
    Row("SkipLayerNormalization", RowStatistic::kVariance),
    Row("SkipSimplifiedLayerNormalization", RowStatistic::kRms),
});

}  // namespace
}  // namespace cudaep::ops
