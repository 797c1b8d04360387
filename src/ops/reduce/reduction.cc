#include "ops/reduce/reduction.h"

#include <algorithm>

#include "kernels/pack.h"

namespace cudaep::ops {

Result<PlanPtr> PlanReduction(kernels::ReduceOp op, const PlanContext& context, std::span<const bool> reduced) {
  auto plan = std::make_unique<ReductionPlan>();
  const TensorView& x = context.inputs[0];
  const int processors = context.device.multiprocessors;
  CUDAEP_ASSIGN_OR_RETURN(plan->packed, kernels::PlanReduce(x.dims(), reduced, op, x.type, processors));
  CUDAEP_ASSIGN_OR_RETURN(plan->unpacked, kernels::PlanReduce(x.dims(), reduced, op, x.type, processors, false));
  plan->workspace_bytes = std::max(plan->packed.workspace_bytes, plan->unpacked.workspace_bytes);
  return PlanPtr(std::move(plan));
}

Status EnqueueReduction(kernels::ReduceOp op, kernels::ReduceKernel kernel, const Plan& base,
                        const OpContext& context) {
  const auto& plan = PlanAs<ReductionPlan>(base);
  const bool aligned = kernels::IsAligned(context.input(0), kernels::kPackBytes) &&
                       kernels::IsAligned(context.output(0), kernels::kPackBytes);
  return kernel({.op = op,
                 .x = context.input(0),
                 .y = context.output(0),
                 .workspace = context.workspace,
                 .plan = aligned ? &plan.packed : &plan.unpacked},
                context.stream());
}

}  // namespace cudaep::ops
