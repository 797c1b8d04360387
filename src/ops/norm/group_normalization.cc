// InstanceNormalization and GroupNormalization: channels, or groups of them, normalised sample by sample, with scale
// and shift for each channel (or each group: GroupNormalization 18). com.microsoft.GroupNorm keeps channels first or
// last, and may end in x * sigmoid(x); so does GroupNorm of compiled regions, of more types.
#include "ops/norm/channel_groups.h"
#include "ops/norm/layer_norm.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum class Variant : uint8_t { kInstance, kGroup, kGroupParameters, kMicrosoft };

class GroupNorm : public Operator {
 public:
  static Result<std::unique_ptr<GroupNorm>> Create(const OpInfo& info, const KernelRow& row) {
    auto op = std::make_unique<GroupNorm>();
    op->variant_ = row.VariantAs<Variant>();
    const bool microsoft = op->variant_ == Variant::kMicrosoft;
    ChannelGroupsSpec spec{.type = info.input_type(0),
                           .affine_type = info.input_type(1),
                           .group_affine = op->variant_ == Variant::kGroupParameters,
                           .epsilon = info.FloatOr("epsilon", 1e-5f)};
    if (op->variant_ != Variant::kInstance) {
      op->groups_ = info.IntOr(microsoft ? "groups" : "num_groups", 0);
      if (op->groups_ < 1) return InvalidArgument("the number of groups is ", op->groups_);
    }
    if (microsoft) {
      const int64_t activation = info.IntOr("activation", 0);
      if (activation != 0 && activation != 1) return InvalidArgument("activation ", activation, "; 0 and 1 are known");
      spec.swish = activation == 1;
      spec.channels_last = op->channels_last_ = info.BoolOr("channels_last", true);
    }
    CUDAEP_RETURN_IF_ERROR(CheckStashType(info));
    op->norm_ = ChannelGroups(spec);
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims x = inputs[0].dims();
    if (x.size() < 2) return InvalidArgument("input ", x, " needs batch and channels");
    const int64_t channels = Channels(x), groups = Groups(channels);
    if (channels % groups != 0) return InvalidArgument(channels, " channels are no multiple of ", groups, " groups");
    const int64_t parameters[] = {variant_ == Variant::kGroupParameters ? groups : channels};
    for (size_t i = 1; i < 3; ++i) {
      const Dims dims = inputs[i].dims();
      if (dims.size() != 1 || dims[0] != parameters[0]) {
        return InvalidArgument("input ", i, " has shape ", dims, ", expected ", Dims(parameters), " for input ", x);
      }
    }
    outputs[0].Assign(x);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const Dims x = context.inputs[0].dims();
    return norm_.MakePlan(x, Groups(Channels(x)), context);
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return norm_.Enqueue(plan, context, context.input(1), context.input(2));
  }

 private:
  int64_t Channels(Dims x) const { return channels_last_ ? x.back() : x[1]; }
  int64_t Groups(int64_t channels) const {
    return variant_ == Variant::kInstance ? std::max<int64_t>(channels, 1) : groups_;
  }

  ChannelGroups norm_{ChannelGroupsSpec{}};
  Variant variant_ = Variant::kInstance;
  int64_t groups_ = 1;
  bool channels_last_ = false;
};

KernelRow Row(const char* op, int since, int until, Variant variant) {
  return {.op = op,
          .since = since,
          .until = until,
          .types = {{"T", kFloatTypes}},
          .in_place = {{0, 0}},
          .variant = static_cast<int>(variant),
          .make = Make<GroupNorm>};
}

constexpr DataTypeSet kMicrosoftTypes{DataType::kFloat, DataType::kFloat16};

const RegisterRows kRows({
    Row("InstanceNormalization", 1, 22, Variant::kInstance),
    Row("GroupNormalization", 18, 18, Variant::kGroupParameters),
    Row("GroupNormalization", 21, 21, Variant::kGroup),
    {.domain = kMicrosoftDomain,
     .op = "GroupNorm",
     .types = {{"T", kMicrosoftTypes}, {"M", kMicrosoftTypes}},
     .in_place = {{0, 0}},
     .variant = static_cast<int>(Variant::kMicrosoft),
     .make = Make<GroupNorm>},
    {.domain = kFusedDomain,
     .op = "GroupNorm",
     .types = {{"T", kernels::kGroupNormTypes}},
     .in_place = {{0, 0}},
     .variant = static_cast<int>(Variant::kMicrosoft),
     .make = Make<GroupNorm>},
});

}  // namespace
}  // namespace cudaep::ops
