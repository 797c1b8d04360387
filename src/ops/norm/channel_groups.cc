#include "ops/norm/channel_groups.h"

#include <algorithm>

#include "kernels/pack.h"

namespace cudaep::ops {
namespace {

struct ChannelGroupsPlan : Plan {
  kernels::GroupNormProblem problem;
  std::optional<kernels::GroupNormPlan> packed;  // for pointers that allow packs
  size_t parts = 0;
  PlanPtr rows;
};

}  // namespace

bool TakesChannelsLast(DataType type, int64_t channels, int64_t groups) {
  return kernels::HasGroupPacks(type, channels, groups);
}

ChannelGroups::ChannelGroups(const ChannelGroupsSpec& spec)
    : spec_(spec),
      rows_({.type = spec.type, .affine_type = spec.affine_type, .epsilon = spec.epsilon, .swish = spec.swish}) {}

Result<PlanPtr> ChannelGroups::MakePlan(Dims x, int64_t groups, const PlanContext& context) const {
  auto plan = std::make_unique<ChannelGroupsPlan>();
  if (ElementCount(x) == 0) return PlanPtr(std::move(plan));
  const size_t spatial = spec_.channels_last ? 1 : 2;
  plan->problem = {.type = spec_.type,
                   .batch = x[0],
                   .channels = spec_.channels_last ? x.back() : x[1],
                   .pixels = ElementCount(x.subspan(spatial, x.size() - 2)),
                   .groups = groups,
                   .channels_last = spec_.channels_last};
  if ((spec_.channels_last || spec_.swish) && !spec_.group_affine) {
    plan->packed = kernels::PlanGroupNorm(plan->problem, context.device);
    if (plan->packed) plan->parts = plan->AddScratch(plan->packed->parts_bytes());
  }
  const NormView view = ViewGroups(x, groups, spec_.channels_last, spec_.group_affine);
  CUDAEP_ASSIGN_OR_RETURN(plan->rows, rows_.MakePlan(view, context));
  plan->workspace_bytes = std::max(plan->workspace_bytes, plan->rows->workspace_bytes);
  return PlanPtr(std::move(plan));
}

Status ChannelGroups::Enqueue(const Plan& base, const OpContext& context, const void* scale, const void* bias) const {
  const auto& plan = PlanAs<ChannelGroupsPlan>(base);
  const void* const x = context.input(0);
  void* const y = context.output(0);
  if (context.inputs[0].elems() == 0) return Status::Ok();
  const bool aligned = kernels::IsAligned(x, kernels::kPackBytes) && kernels::IsAligned(y, kernels::kPackBytes);
  if (!aligned || !plan.packed) return rows_.Enqueue(*plan.rows, context, scale, bias);
  return kernels::LaunchGroupNorm({.problem = &plan.problem,
                                   .plan = &*plan.packed,
                                   .affine_type = spec_.affine_type,
                                   .x = x,
                                   .y = y,
                                   .scale = scale,
                                   .bias = bias,
                                   .parts = context.scratch(plan.parts),
                                   .epsilon = spec_.epsilon,
                                   .swish = spec_.swish},
                                  context.stream());
}

}  // namespace cudaep::ops
