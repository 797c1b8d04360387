#include "kernels/attention/attention.h"

#include "kernels/attention/flash.h"

namespace cudaep::kernels {

Status LaunchAttention(const AttentionPlan& plan, const AttentionPointers& at, device::Stream stream) {
  const AttentionProblem& p = plan.problem;
  if (p.batch == 0 || p.heads == 0 || p.queries == 0) return Status::Ok();
  if (p.v_head_size == 0 && (at.scores == nullptr || p.keys == 0)) return Status::Ok();
  const FlashArguments arguments = MakeFlashArguments(plan, at);
  if (TakesWholeHead(arguments)) {
    if (plan.warpgroup_heads && arguments.y_aligned != 0) return LaunchWarpgroupHeads(plan, arguments, stream);
    if (plan.whole_rows_warps != 0) return LaunchWholeRows(plan, arguments, stream);
  }
  if (plan.window_warps != 0 && TakesWindows(arguments)) return LaunchWindows(plan, arguments, stream);
  const auto launch = [&] {
    if (plan.few_queries && FlashModeOf(arguments) == FlashMode::kPlain) {
      return LaunchFewQueries(plan, arguments, stream);
    }
    if (IsRareKernel(plan)) return LaunchFlashMixed(plan, arguments, stream);
    switch (p.type) {
      case DataType::kFloat:
        return LaunchFlashFloat(plan, arguments, stream);
      case DataType::kDouble:
        return LaunchFlashDouble(plan, arguments, stream);
      case DataType::kFloat16:
        return LaunchFlashHalf(plan, arguments, stream);
      case DataType::kBFloat16:
        return LaunchFlashBFloat16(plan, arguments, stream);
      default:
        return NotSupported("attention of ", DataTypeName(p.type));
    }
  };
  CUDAEP_RETURN_IF_ERROR(launch());
  return plan.splits > 1 ? LaunchJoinSplits(plan, at, stream) : Status::Ok();
}

}  // namespace cudaep::kernels
