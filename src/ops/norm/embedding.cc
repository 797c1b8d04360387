// Embedding, which compiled regions make: rows of up to three tables by ids, added up, and normalised where a scale is
// given. Inputs are table and ids of each, then scale and shift; a table without ids has the rows of the last tokens'
// dimensions, for as often as they come. Outputs: what is normalised, or else the sum; the sum.
#include "ops/norm/embedding.h"

#include "device/device_info.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

constexpr int kScale = 2 * kernels::kEmbeddingTables, kBeta = kScale + 1;
constexpr DataType kWideType = DataType::kFloat;

// How many tokens an operand has that repeats over the last of all: all of its own, behind dimensions of 1.
Result<int64_t> PeriodOf(Dims own, Dims tokens, int input) {
  while (!own.empty() && own.front() == 1) own = own.subspan(1);
  const bool repeats = own.size() <= tokens.size() && SameDims(own, tokens.last(own.size()));
  if (!repeats) return InvalidArgument("input ", input, " of ", own, " tokens does not repeat over all ", tokens);
  return std::max<int64_t>(ElementCount(own), 1);
}

class Embedding final : public Operator {
 public:
  explicit Embedding(const OpInfo& info)
      : type_(info.input_type(0)),
        normalises_(info.has_input(kScale)),
        has_sum_(info.output_count() > 1),
        norm_{.epsilon = info.FloatOr("epsilon", 1e-5f),
              .statistic = info.IntOr("rms", 0) != 0 ? kernels::RowStatistic::kRms : kernels::RowStatistic::kVariance} {
  }

  static Result<std::unique_ptr<Embedding>> Create(const OpInfo& info) {
    if (info.output_count() > 1 && !info.has_input(kScale)) {
      return InvalidArgument("the sum is the only output of embeddings without normalisation");
    }
    return std::make_unique<Embedding>(info);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const int64_t width = inputs[0].rank == 0 ? 0 : inputs[0].dims().back();
    Shape tokens;
    for (int i = 0; i < kScale; i += 2) {
      const TensorView table = InputAt(inputs, i);
      if (!table.present()) continue;
      const bool by_ids = HasInput(inputs, i + 1);
      if (table.rank == 0 || (by_ids && table.rank != 2) || table.dims().back() != width) {
        return InvalidArgument("table ", table.dims(), " of input ", i, " does not have rows of ", width);
      }
      const Dims own = TokensOf(inputs, i);
      CUDAEP_ASSIGN_OR_RETURN(tokens, BroadcastShapes(tokens, own));
    }
    for (int i = 0; i < kScale; i += 2) {
      if (!HasInput(inputs, i)) continue;
      CUDAEP_RETURN_IF_ERROR(PeriodOf(TokensOf(inputs, i), tokens, i).status());
    }
    for (const int i : {kScale, kBeta}) {
      const TensorView vector = InputAt(inputs, i);
      if (vector.present() && !SameDims(vector.dims(), Shape{width})) {
        return InvalidArgument("input ", i, " has shape ", vector.dims(), ", expected [", width, "]");
      }
    }
    for (Shape& output : outputs) {
      output.Resize(tokens.rank() + 1);
      std::copy_n(tokens.data(), tokens.rank(), output.data());
      output[tokens.rank()] = width;
    }
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<EmbeddingPlan>();
    const Dims dims = context.outputs[0];
    plan->elems = dims.back();
    plan->rows = ElementCount(dims.first(dims.size() - 1));
    if (normalises_) CUDAEP_RETURN_IF_ERROR(PlanEmbeddingNorm(type_, context.device, plan.get()));
    double tensors = has_sum_ ? 2 : 1;  // of tables no more is read than the rows
    for (int i = 0; i < kScale; i += 2) tensors += HasInput(context.inputs, i) ? 1 : 0;
    plan->cost_bytes = tensors * static_cast<double>(context.outputs[0].elems()) * static_cast<double>(SizeOf(type_));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<EmbeddingPlan>(base);
    kernels::EmbeddingArgs args{.type = type_, .tokens = plan.rows, .width = plan.elems};
    const Dims dims = context.shapes[0];
    for (int t = 0; t < kernels::kEmbeddingTables; ++t) {
      if (!HasInput(context.inputs, 2 * t)) continue;
      const TensorView table = InputAt(context.inputs, 2 * t), ids = InputAt(context.inputs, 2 * t + 1);
      auto& made = args.tables[static_cast<size_t>(t)];
      CUDAEP_ASSIGN_OR_RETURN(made.period,
                              PeriodOf(TokensOf(context.inputs, 2 * t), dims.first(dims.size() - 1), 2 * t));
      made.rows = table.data;
      made.count = ids.present() ? table.dim[0] : made.period;
      made.ids = {ids.data, ids.type == DataType::kInt64};
    }
    if (!normalises_) {
      args.sum = context.output(0);
      return kernels::LaunchEmbeddingSum(args, nullptr, context.stream());
    }
    args.sum = has_sum_ ? context.output(1) : nullptr;
    kernels::EmbeddingNorm norm = norm_;
    norm.scale = context.input(kScale);
    norm.beta = InputAt(context.inputs, kBeta).data;
    norm.y = context.output(0);
    return EnqueueEmbeddingNorm(plan, args, norm, context);
  }

 private:
  static Dims TokensOf(TensorViews inputs, int table) {
    const TensorView ids = InputAt(inputs, table + 1), rows = InputAt(inputs, table);
    return ids.present() ? ids.dims() : rows.dims().first(rows.dims().size() - 1);
  }

  DataType type_;
  bool normalises_, has_sum_;
  kernels::EmbeddingNorm norm_;
};

const RegisterRows kRows(
    {{.domain = kFusedDomain,
      .op = "Embedding",
      .types = {{"T", kFloatTypesNoDouble}, {"I0", kIndexTypes}, {"I1", kIndexTypes}, {"I2", kIndexTypes}},
      .make = Make<Embedding>}});

}  // namespace

Status PlanEmbeddingNorm(DataType type, const device::DeviceInfo& device, EmbeddingPlan* plan) {
  plan->in_one_launch = kernels::FitsEmbeddingNorm(type, plan->elems);
  if (plan->in_one_launch) return Status::Ok();
  plan->scale.columns = plan->beta.columns = plan->elems;
  plan->wide_sum = plan->AddScratch(static_cast<size_t>(plan->rows * plan->elems) * SizeOf(kWideType));
  CUDAEP_ASSIGN_OR_RETURN(
      plan->kernel,
      kernels::PlanLayerNorm({.x_type = kWideType, .y_type = type, .rows = plan->rows, .elems = plan->elems}, device));
  return Status::Ok();
}

Status EnqueueEmbeddingNorm(const EmbeddingPlan& plan, const kernels::EmbeddingArgs& args,
                            const kernels::EmbeddingNorm& norm, const OpContext& context) {
  if (plan.in_one_launch) return kernels::LaunchEmbeddingNorm(args, norm, context.stream());
  void* const sum = context.scratch(plan.wide_sum);
  CUDAEP_RETURN_IF_ERROR(kernels::LaunchEmbeddingSum(args, sum, context.stream()));
  return kernels::LaunchLayerNorm({.x_type = kWideType,
                                   .y_type = args.type,
                                   .x = sum,
                                   .scale = norm.scale,
                                   .beta = norm.beta,
                                   .y = norm.y,
                                   .rows = plan.rows,
                                   .elems = plan.elems,
                                   .scale_map = plan.scale,
                                   .beta_map = plan.beta,
                                   .epsilon = norm.epsilon,
                                   .statistic = norm.statistic,
                                   .plans = &plan.kernel},
                                  context.stream());
}

}  // namespace cudaep::ops
