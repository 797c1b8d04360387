#include "ops/reduce/reduction.h"

#include <algorithm>

#include "kernels/pack.h"

namespace cudaep::ops {

static_assert(kernels::kReduceTickets <= Tickets::kCount);

Result<std::unique_ptr<ReductionPlan>> PlanReductionOf(kernels::ReduceOp op, Dims dims, std::span<const bool> reduced,
                                                       DataType type, const PlanContext& context) {
  auto plan = std::make_unique<ReductionPlan>();
  const int processors = context.device.multiprocessors;
  CUDAEP_ASSIGN_OR_RETURN(plan->packed, kernels::PlanReduce(dims, reduced, op, type, processors));
  CUDAEP_ASSIGN_OR_RETURN(plan->unpacked, kernels::PlanReduce(dims, reduced, op, type, processors, false));
  plan->workspace_bytes = std::max(plan->packed.workspace_bytes, plan->unpacked.workspace_bytes);
  if (plan->needs_tickets()) CUDAEP_RETURN_IF_ERROR(context.runtime.tickets().Get().status());
  return plan;
}

Status EnqueueReductionOf(kernels::ReduceKernel kernel, const ReductionPlan& plan, const OpContext& context,
                          kernels::ReduceArgs args) {
  if (plan.needs_tickets()) {
    CUDAEP_ASSIGN_OR_RETURN(args.tickets, context.runtime.tickets().Get());
  }
  const bool aligned =
      kernels::IsAligned(args.x, kernels::kPackBytes) && kernels::IsAligned(args.y, kernels::kPackBytes);
  args.plan = aligned ? &plan.packed : &plan.unpacked;
  return kernel(args, context.stream());
}

Result<PlanPtr> PlanReduction(kernels::ReduceOp op, const PlanContext& context, std::span<const bool> reduced) {
  const TensorView& x = context.inputs[0];
  CUDAEP_ASSIGN_OR_RETURN(auto plan, PlanReductionOf(op, x.dims(), reduced, x.type, context));
  return PlanPtr(std::move(plan));
}

Status EnqueueReduction(kernels::ReduceOp op, kernels::ReduceKernel kernel, const Plan& plan, const OpContext& context,
                        bool last) {
  return EnqueueReductionOf(
      kernel, PlanAs<ReductionPlan>(plan), context,
      {.op = op, .x = context.input(0), .y = context.output(0), .workspace = context.workspace, .last = last});
}

}  // namespace cudaep::ops
