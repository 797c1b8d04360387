// EmbedLayerNormalization: the sum of word, position and segment embeddings, which may be an output, normalised; and
// the count of what a mask keeps.
#include "ops/norm/embedding.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input { kIds, kSegments, kWords, kPositions, kKinds, kGamma, kBeta, kMask, kPositionIds };
enum Output { kNormalised, kMaskIndex, kSum };

struct EmbedPlan : EmbeddingPlan {
  int64_t length = 0;
};

class EmbedLayerNorm : public Operator {
 public:
  explicit EmbedLayerNorm(const OpInfo& info)
      : type_(info.input_type(kWords)), outputs_(info.output_count()), epsilon_(info.FloatOr("epsilon", 1e-12f)) {}

  static Result<std::unique_ptr<EmbedLayerNorm>> Create(const OpInfo& info) {
    if (info.IntOr("mask_index_type", 0) != 0) {
      return NotSupported("mask_index_type ", info.IntOr("mask_index_type", 0), "; only 0, counts, is offered");
    }
    if (info.has_input(kSegments) != info.has_input(kKinds)) {
      return InvalidArgument("segment_ids and segment_embedding come together or not at all");
    }
    return std::make_unique<EmbedLayerNorm>(info);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims ids = inputs[kIds].dims();
    if (ids.size() != 2) return InvalidArgument("input_ids ", ids, " must have the shape [batch, length]");
    for (const int i : {kWords, kPositions, kKinds}) {
      if (HasInput(inputs, i) && inputs[Index(i)].rank != 2) {
        return InvalidArgument("table ", inputs[Index(i)].dims(), " of input ", i, " must have two dimensions");
      }
    }
    const int64_t width = inputs[kWords].dim[1];
    for (const int i : {kPositions, kKinds}) {
      if (HasInput(inputs, i) && inputs[Index(i)].dim[1] != width) {
        return InvalidArgument("table ", inputs[Index(i)].dims(), " of input ", i, " must have rows of ", width);
      }
    }
    for (const int i : {kGamma, kBeta}) {
      const Dims vector = inputs[Index(i)].dims();
      if (vector.size() != 1 || vector[0] != width) {
        return InvalidArgument("input ", i, " has shape ", vector, ", expected [", width, "]");
      }
    }
    for (const int i : {kSegments, kMask}) {
      if (HasInput(inputs, i) && !SameDims(inputs[Index(i)].dims(), ids)) {
        return InvalidArgument("input ", i, " has shape ", inputs[Index(i)].dims(), ", expected ", ids);
      }
    }
    if (HasInput(inputs, kPositionIds)) {
      const Dims places = inputs[kPositionIds].dims();
      if (places.size() != 2 || places[1] != ids[1] || (places[0] != 1 && places[0] != ids[0])) {
        return InvalidArgument("position_ids ", places, " must have the shape [1 or ", ids[0], ", ", ids[1], "]");
      }
    } else if (inputs[kPositions].dim[0] < ids[1]) {
      return InvalidArgument("position_embedding ", inputs[kPositions].dims(), " is shorter than ", ids[1], " tokens");
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i] = i == kMaskIndex ? Shape({ids[0]}) : Shape({ids[0], ids[1], width});
    }
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const Dims ids = context.inputs[kIds].dims();
    auto plan = std::make_unique<EmbedPlan>();
    plan->rows = ElementCount(ids);
    plan->length = ids[1];
    plan->elems = context.inputs[kWords].dim[1];
    CUDAEP_RETURN_IF_ERROR(PlanEmbeddingNorm(type_, context.device, plan.get()));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<EmbedPlan>(base);
    const auto output = [&](int i) { return i < outputs_ ? context.output(i) : nullptr; };
    if (output(kMaskIndex) != nullptr) CUDAEP_RETURN_IF_ERROR(CountMask(plan, context));
    const kernels::EmbeddingArgs args{
        .type = type_,
        .tables = {Table(context, kWords, kIds, plan.rows), Table(context, kPositions, kPositionIds, plan.length),
                   Table(context, kKinds, kSegments, plan.rows)},
        .tokens = plan.rows,
        .width = plan.elems,
        .sum = output(kSum)};
    const kernels::EmbeddingNorm norm{.scale = context.input(kGamma),
                                      .beta = context.input(kBeta),
                                      .y = context.output(kNormalised),
                                      .epsilon = epsilon_};
    return EnqueueEmbeddingNorm(plan, args, norm, context);
  }

 private:
  static size_t Index(int i) { return static_cast<size_t>(i); }

  // Ids of tokens one by one, or of one sequence that all of the batch share.
  static kernels::EmbeddingTable Table(const OpContext& context, int table, int ids, int64_t period) {
    if (!HasInput(context.inputs, table)) return {};
    const TensorView& rows = context.inputs[Index(table)];
    if (!HasInput(context.inputs, ids)) return {.rows = rows.data, .count = rows.dim[0], .period = period};
    const TensorView& chosen = context.inputs[Index(ids)];
    return {.rows = rows.data, .ids = {chosen.data, false}, .count = rows.dim[0], .period = chosen.elems()};
  }

  Status CountMask(const EmbedPlan& plan, const OpContext& context) const {
    const int64_t batch = context.inputs[kIds].dim[0];
    auto* counts = context.output<int32_t>(kMaskIndex);
    if (HasInput(context.inputs, kMask)) {
      return kernels::LaunchCountOnes(context.input<int32_t>(kMask), batch, plan.length, counts, context.stream());
    }
    return device::MemsetAsync(counts, 0, static_cast<size_t>(batch) * sizeof(int32_t), context.stream());
  }

  DataType type_;
  int outputs_;
  double epsilon_;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "EmbedLayerNormalization",
     .types = {{"T", DataTypeSet(DataType::kFloat) | DataType::kFloat16}, {"T1", DataType::kInt32}},
     .make = Make<EmbedLayerNorm>},
});

}  // namespace
}  // namespace cudaep::ops
