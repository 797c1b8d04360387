#include "ops/reduce/reduction.h"

#include <algorithm>
#include <utility>

#include "kernels/pack.h"
#include "ops/call_memory.h"

namespace cudaep::ops {

static_assert(kernels::kReduceTickets <= Tickets::kCount);

namespace {

Status EnqueueCopies(kernels::ReduceKernel kernel, const ReductionPlan& plan, const OpContext& context,
                     kernels::ReduceArgs args) {
  const auto outputs = static_cast<size_t>(plan.packed.outputs), count = static_cast<size_t>(plan.packed.count);
  const size_t x_bytes = outputs * count * plan.copied_elem_bytes, y_bytes = outputs * plan.copied_elem_bytes;
  CallMemory memory(context.runtime);
  const size_t x = memory.Add(x_bytes), y = memory.Add(y_bytes);
  CUDAEP_RETURN_IF_ERROR(memory.Take());
  if (x_bytes != 0) CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(memory.at(x), args.x, x_bytes, context.stream()));
  void* const result = std::exchange(args.y, memory.at(y));
  args.x = memory.at(x);
  args.plan = &plan.packed;
  CUDAEP_RETURN_IF_ERROR(kernel(args, context.stream()));
  return y_bytes == 0 ? Status::Ok() : device::MemcpyAsync(result, args.y, y_bytes, context.stream());
}

}  // namespace

Result<std::unique_ptr<ReductionPlan>> PlanReductionOf(kernels::ReduceOp op, Dims dims, std::span<const bool> reduced,
                                                       DataType type, const PlanContext& context, bool deterministic) {
  auto plan = std::make_unique<ReductionPlan>();
  const int processors = context.device.multiprocessors;
  CUDAEP_ASSIGN_OR_RETURN(plan->packed, kernels::PlanReduce(dims, reduced, op, type, processors));
  CUDAEP_ASSIGN_OR_RETURN(plan->unpacked, kernels::PlanReduce(dims, reduced, op, type, processors, false));
  plan->workspace_bytes = std::max(plan->packed.workspace_bytes, plan->unpacked.workspace_bytes);
  const bool packs = plan->packed.row_pack * plan->packed.column_pack > 1;
  if (deterministic && packs && kFloatTypes.Contains(type)) plan->copied_elem_bytes = SizeOf(type);
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
  if (!aligned && plan.copied_elem_bytes != 0) return EnqueueCopies(kernel, plan, context, args);
  args.plan = aligned ? &plan.packed : &plan.unpacked;
  return kernel(args, context.stream());
}

Result<PlanPtr> PlanReduction(kernels::ReduceOp op, const PlanContext& context, std::span<const bool> reduced,
                              bool deterministic) {
  const TensorView& x = context.inputs[0];
  CUDAEP_ASSIGN_OR_RETURN(auto plan, PlanReductionOf(op, x.dims(), reduced, x.type, context, deterministic));
  return PlanPtr(std::move(plan));
}

Status EnqueueReduction(kernels::ReduceOp op, kernels::ReduceKernel kernel, const Plan& plan, const OpContext& context,
                        bool last) {
  return EnqueueReductionOf(
      kernel, PlanAs<ReductionPlan>(plan), context,
      {.op = op, .x = context.input(0), .y = context.output(0), .workspace = context.workspace, .last = last});
}

}  // namespace cudaep::ops
