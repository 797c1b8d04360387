// com.microsoft's SkipGroupNorm: GroupNorm of X + skip + bias, and that sum. The sum is rounded to the tensors' type
// once and normalised as it is stored.
#include "kernels/elementwise/variadic.h"
#include "ops/norm/channel_groups.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input { kX, kGamma, kBeta, kSkip, kBias, kInputs };

struct SkipGroupNormPlan : Plan {
  PlanPtr norm;
  kernels::Broadcast<kernels::kMaxVariadicInputs> sum;
  size_t sum_at = 0;
};

class SkipGroupNorm final : public Operator {
 public:
  static Result<std::unique_ptr<SkipGroupNorm>> Create(const OpInfo& info) {
    auto op = std::make_unique<SkipGroupNorm>();
    op->groups_ = info.IntOr("groups", 0);
    if (op->groups_ < 1) return InvalidArgument("the number of groups is ", op->groups_);
    const int64_t activation = info.IntOr("activation", 0);
    if (activation != 0 && activation != 1) return InvalidArgument("activation ", activation, "; 0 and 1 are known");
    op->channels_last_ = info.BoolOr("channels_last", true);
    op->has_sum_ = info.has_output(1);
    op->terms_ = info.has_input(kBias) ? 3 : 2;
    op->add_ = kernels::FindVariadicKernel(kernels::VariadicOp::kSum, info.input_type(kX));
    op->norm_ = ChannelGroups({.type = info.input_type(kX),
                               .affine_type = info.input_type(kGamma),
                               .channels_last = op->channels_last_,
                               .swish = activation == 1,
                               .epsilon = info.FloatOr("epsilon", 1e-5f)});
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims x = inputs[kX].dims();
    if (x.size() < 2) return InvalidArgument("input ", x, " needs batch and channels");
    const int64_t channels[] = {channels_last_ ? x.back() : x[1]};
    if (channels[0] % groups_ != 0) {
      return InvalidArgument(channels[0], " channels are no multiple of ", groups_, " groups");
    }
    for (const int i : {kGamma, kBeta, kBias}) {
      const TensorView vector = InputAt(inputs, i);
      if (vector.present() && !SameDims(vector.dims(), Dims(channels))) {
        return InvalidArgument("input ", i, " has shape ", vector.dims(), ", expected ", Dims(channels));
      }
    }
    CUDAEP_RETURN_IF_ERROR(SkipShape(inputs).status());
    for (Shape& output : outputs) output.Assign(x);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<SkipGroupNormPlan>();
    const Dims x = context.inputs[kX].dims();
    CUDAEP_ASSIGN_OR_RETURN(plan->norm, norm_.MakePlan(x, groups_, context));
    plan->workspace_bytes = plan->norm->workspace_bytes;
    if (!has_sum_) plan->sum_at = plan->AddScratch(context.inputs[kX].bytes());
    CUDAEP_ASSIGN_OR_RETURN(const Shape skip, SkipShape(context.inputs));
    Shape bias(channels_last_ ? 1 : static_cast<int>(x.size()) - 1, 1);
    bias[0] = channels_last_ ? x.back() : x[1];
    std::array<Dims, kernels::kMaxVariadicInputs> dims;
    dims.fill(x);  // behind the inputs nobody looks
    dims[1] = skip, dims[2] = bias;
    CUDAEP_ASSIGN_OR_RETURN(plan->sum, kernels::MakeBroadcast<kernels::kMaxVariadicInputs>(x, dims));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<SkipGroupNormPlan>(base);
    if (context.inputs[kX].elems() == 0) return Status::Ok();
    void* const sum = has_sum_ ? context.output(1) : context.scratch(plan.sum_at);
    const void* terms[] = {context.input(kX), context.input(kSkip), InputAt(context.inputs, kBias).data};
    CUDAEP_RETURN_IF_ERROR(
        add_({.inputs = terms, .count = terms_, .y = sum, .broadcast = &plan.sum}, context.stream()));
    TensorView of_sum = context.inputs[kX];
    of_sum.data = sum;
    OpContext normalized = context;
    normalized.inputs = TensorViews(&of_sum, 1);
    return norm_.Enqueue(*plan.norm, normalized, context.input(kGamma), context.input(kBeta));
  }

 private:
  // As it broadcasts: of X's shape, or one value for each channel of each sample, maybe without dimensions of 1.
  Result<Shape> SkipShape(TensorViews inputs) const {
    const Dims x = inputs[kX].dims(), skip = inputs[kSkip].dims();
    Shape each(static_cast<int>(x.size()), 1);
    each[0] = x[0];
    const int at = channels_last_ ? each.rank() - 1 : 1;
    each[at] = x[static_cast<size_t>(at)];
    const int64_t flat[] = {each[0], each[at]};
    if (SameDims(skip, x)) return Shape(x);
    if (SameDims(skip, each) || SameDims(skip, Dims(flat))) return each;
    return InvalidArgument("skip ", skip, " has neither the shape of X, ", x, ", nor one value for each channel");
  }

  ChannelGroups norm_{ChannelGroupsSpec{}};
  kernels::VariadicKernel add_ = nullptr;
  int64_t groups_ = 1;
  int terms_ = 2;
  bool channels_last_ = true, has_sum_ = false;
};

constexpr DataTypeSet kTypes{DataType::kFloat, DataType::kFloat16};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "SkipGroupNorm",
     .types = {{"T", kTypes}, {"M", kTypes}},
     .make = Make<SkipGroupNorm>},
});

}  // namespace
}  // namespace cudaep::ops
