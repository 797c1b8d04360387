// LayerNormalization, SimplifiedLayerNormalization and RMSNormalization: each row from the axis on, scaled and shifted.
// LayerNormalization 1 and SimplifiedLayerNormalization are the host's own, made by its fusions in the ONNX domain.
#include "ops/norm/layer_norm.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

using kernels::RowStatistic;

class LayerNorm : public Operator {
 public:
  LayerNorm(const OpInfo& info, RowStatistic statistic)
      : x_type_(info.input_type(0)),
        y_type_(info.output_type(0)),
        rms_(statistic == RowStatistic::kRms),
        has_beta_(!rms_ && info.has_input(2)),
        constant_affine_(info.is_constant(1) && (!has_beta_ || info.is_constant(2))),
        forced_(ForcedKernel(info.settings().norm_path)),
        axis_(info.IntOr("axis", -1)),
        epsilon_(info.FloatOr("epsilon", 1e-5f)),
        outputs_(info.output_count()),
        inv_std_output_(rms_ ? 1 : 2) {
    for (int i = 1; i < outputs_; ++i) double_statistics_ |= info.output_type(i) == DataType::kDouble;
  }

  static Result<std::unique_ptr<LayerNorm>> Create(const OpInfo& info, const KernelRow& row) {
    CUDAEP_RETURN_IF_ERROR(CheckStashType(info));
    if (!kernels::LayerNormSupports(info.input_type(0), info.input_type(1))) {
      return NotSupported("input of type ", DataTypeName(info.input_type(0)), " with scale of type ",
                          DataTypeName(info.input_type(1)));
    }
    for (int i = 1; i < info.output_count(); ++i) {
      if (!info.has_output(i)) continue;
      const DataType type = info.output_type(i);
      if (type != DataType::kFloat && type != DataType::kDouble) {
        return NotSupported("statistics of type ", DataTypeName(type));
      }
    }
    return std::make_unique<LayerNorm>(info, row.VariantAs<RowStatistic>());
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims dims = inputs[0].dims();
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, inputs[0].rank));
    CUDAEP_RETURN_IF_ERROR(MapAffine(dims, axis, inputs[1].dims(), "scale").status());
    if (has_beta_) CUDAEP_RETURN_IF_ERROR(MapAffine(dims, axis, inputs[2].dims(), "bias").status());
    outputs[0].Assign(dims);
    for (size_t i = 1; i < outputs.size(); ++i) {
      outputs[i].Assign(dims);
      for (int d = axis; d < inputs[0].rank; ++d) outputs[i][d] = 1;
    }
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const Dims dims = context.inputs[0].dims();
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, context.inputs[0].rank));
    auto plan = std::make_unique<LayerNormPlan>();
    plan->rows = ElementCount(dims.subspan(0, static_cast<size_t>(axis)));
    plan->elems = ElementCount(dims.subspan(static_cast<size_t>(axis)));
    CUDAEP_ASSIGN_OR_RETURN(plan->scale, MapAffine(dims, axis, context.inputs[1].dims(), "scale"));
    bool whole_rows = plan->scale.columns == plan->elems, same_affine = plan->scale.rows == 1;
    if (has_beta_) {
      CUDAEP_ASSIGN_OR_RETURN(plan->beta, MapAffine(dims, axis, context.inputs[2].dims(), "bias"));
      whole_rows = whole_rows && plan->beta.columns == plan->elems;
      same_affine = same_affine && plan->beta.rows == 1;
    }
    CUDAEP_ASSIGN_OR_RETURN(plan->kernel, kernels::PlanLayerNorm({.x_type = x_type_,
                                                                  .y_type = y_type_,
                                                                  .rows = plan->rows,
                                                                  .elems = plan->elems,
                                                                  .whole_rows = whole_rows,
                                                                  .same_affine = whole_rows && same_affine},
                                                                 context.device, forced_));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<LayerNormPlan>(base);
    return kernels::LaunchLayerNorm({.x_type = x_type_,
                                     .y_type = y_type_,
                                     .x = context.input(0),
                                     .scale = context.input(1),
                                     .beta = has_beta_ ? context.input(2) : nullptr,
                                     .y = context.output(0),
                                     .mean = !rms_ && outputs_ > 1 ? context.output(1) : nullptr,
                                     .inv_std = outputs_ > inv_std_output_ ? context.output(inv_std_output_) : nullptr,
                                     .double_statistics = double_statistics_,
                                     .rows = plan.rows,
                                     .elems = plan.elems,
                                     .scale_map = plan.scale,
                                     .beta_map = plan.beta,
                                     .epsilon = epsilon_,
                                     .statistic = rms_ ? RowStatistic::kRms : RowStatistic::kVariance,
                                     .constant_affine = constant_affine_,
                                     .plans = &plan.kernel},
                                    context.stream());
  }

 private:
  DataType x_type_, y_type_;
  bool rms_, has_beta_, constant_affine_, double_statistics_ = false;
  kernels::NormChoice forced_;
  int64_t axis_;
  double epsilon_;
  int outputs_, inv_std_output_;
};

constexpr int kRms = static_cast<int>(RowStatistic::kRms);
constexpr DataTypeSet kStatistics{DataType::kFloat, DataType::kDouble};

const RegisterRows kRows({
    {.op = "LayerNormalization",
     .types = {{"T", kFloatTypes}, {"U", kStatistics}, {"V", kFloatTypes}},
     .in_place = {{0, 0}},
     .make = Make<LayerNorm>},
    {.op = "LayerNormalization",
     .since = 17,
     .until = 17,
     .types = {{"T", kFloatTypes}, {"U", DataType::kFloat}},
     .in_place = {{0, 0}},
     .make = Make<LayerNorm>},
    {.op = "RMSNormalization",
     .since = 23,
     .until = 23,
     .types = {{"T", kFloatTypes}, {"V", kFloatTypes}},
     .in_place = {{0, 0}},
     .variant = kRms,
     .make = Make<LayerNorm>},
    {.op = "SimplifiedLayerNormalization",
     .types = {{"T", kFloatTypes}, {"U", kStatistics}, {"V", kFloatTypes}},
     .in_place = {{0, 0}},
     .variant = kRms,
     .make = Make<LayerNorm>},
});

}  // namespace
}  // namespace cudaep::ops
