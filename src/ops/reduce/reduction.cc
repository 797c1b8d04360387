#include "ops/reduce/reduction.h"

#include <algorithm>

#include "kernels/pack.h"

namespace cudaep::ops {

static_assert(kernels::kReduceTickets <= Tickets::kCount);

Result<PlanPtr> PlanReduction(kernels::ReduceOp op, const PlanContext& context, std::span<const bool> reduced) {
  auto plan = std::make_unique<ReductionPlan>();
  const TensorView& x = context.inputs[0];
  const int processors = context.device.multiprocessors;
  CUDAEP_ASSIGN_OR_RETURN(plan->packed, kernels::PlanReduce(x.dims(), reduced, op, x.type, processors));
  CUDAEP_ASSIGN_OR_RETURN(plan->unpacked, kernels::PlanReduce(x.dims(), reduced, op, x.type, processors, false));
  plan->workspace_bytes = std::max(plan->packed.workspace_bytes, plan->unpacked.workspace_bytes);
  if (plan->needs_tickets()) CUDAEP_RETURN_IF_ERROR(context.runtime.tickets().Get().status());
  return PlanPtr(std::move(plan));
}

Status EnqueueReduction(kernels::ReduceOp op, kernels::ReduceKernel kernel, const Plan& base, const OpContext& context,
                        bool last) {
  const auto& plan = PlanAs<ReductionPlan>(base);
  unsigned* tickets = nullptr;
  if (plan.needs_tickets()) {
    CUDAEP_ASSIGN_OR_RETURN(tickets, context.runtime.tickets().Get());
  }
  const bool aligned = kernels::IsAligned(context.input(0), kernels::kPackBytes) &&
                       kernels::IsAligned(context.output(0), kernels::kPackBytes);
  return kernel({.op = op,
                 .x = context.input(0),
                 .y = context.output(0),
                 .workspace = context.workspace,
                 .tickets = tickets,
                 .last = last,
                 .plan = aligned ? &plan.packed : &plan.unpacked},
                context.stream());
}

}  // namespace cudaep::ops
