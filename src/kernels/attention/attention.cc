#include "kernels/attention/attention.h"

#include "kernels/attention/flash.h"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

bool IsNothing(const AttentionProblem& p, const AttentionPointers& at) {
  if (p.batch == 0 || p.heads == 0 || p.queries == 0) return true;
  return p.v_head_size == 0 && (at.scores == nullptr || p.keys == 0);
}

// Which of the kernels a call goes to.
enum class Way : uint8_t { kWarpgroupHeads, kWholeRows, kWindows, kFewQueries, kTiles };

Way WayOf(const AttentionPlan& plan, const FlashArguments& arguments) {
  if (TakesWholeHead(arguments)) {
    if (plan.warpgroup_heads && arguments.y_aligned != 0) return Way::kWarpgroupHeads;
    if (plan.whole_rows_warps != 0) return Way::kWholeRows;
  }
  if (plan.window_warps != 0 && TakesWindows(arguments)) return Way::kWindows;
  if (plan.warpgroup_heads && TakesWarpgroupBias(arguments)) return Way::kWarpgroupHeads;
  return plan.few_queries && FlashModeOf(arguments) == FlashMode::kPlain ? Way::kFewQueries : Way::kTiles;
}

Status LaunchTiles(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream) {
  if (IsRareKernel(plan)) return LaunchFlashMixed(plan, arguments, stream);
  switch (plan.problem.type) {
    case DataType::kFloat:
      return LaunchFlashFloat(plan, arguments, stream);
    case DataType::kDouble:
      return LaunchFlashDouble(plan, arguments, stream);
    case DataType::kFloat16:
      return LaunchFlashHalf(plan, arguments, stream);
    case DataType::kBFloat16:
      return LaunchFlashBFloat16(plan, arguments, stream);
    default:
      return NotSupported("attention of ", DataTypeName(plan.problem.type));
  }
}

}  // namespace

bool CopiesPast(const AttentionPlan& plan, const AttentionPointers& at) {
  const AttentionProblem& p = plan.problem;
  const AttentionPast& past = at.past;
  const auto has_all = [&](bool any, const ScoreStrides& strides) { return !any || strides.keys >= past.rows; };
  if (past.k == nullptr || past.v == nullptr || IsNothing(p, at)) return false;
  const bool walks_over_all = p.keys >= past.rows && at.key_begin == nullptr && at.key_end == nullptr &&
                              p.left >= p.past && p.past + p.queries + p.right >= past.rows &&
                              has_all(p.mask != AttentionMask::kNone, p.mask_strides) &&
                              has_all(p.bias, p.bias_strides);
  // Blocks that share a head's keys are few, and take longer with the copy than it takes apart.
  const bool once = plan.packed == p.heads / p.kv_heads && plan.splits == 1;
  const int64_t pack = PackElems(SizeOf(p.type));
  return walks_over_all && once && IsWhole(p, past.k, past.k_strides, pack) &&
         IsWhole(p, past.v, past.v_strides, pack) && WayOf(plan, MakeFlashArguments(plan, at)) == Way::kFewQueries;
}

Status LaunchAttention(const AttentionPlan& plan, const AttentionPointers& at, device::Stream stream) {
  const AttentionProblem& p = plan.problem;
  if (IsNothing(p, at)) return Status::Ok();
  const FlashArguments arguments = MakeFlashArguments(plan, at);
  switch (WayOf(plan, arguments)) {
    case Way::kWarpgroupHeads:
      return LaunchWarpgroupHeads(plan, arguments, stream);
    case Way::kWholeRows:
      return LaunchWholeRows(plan, arguments, stream);
    case Way::kWindows:
      return LaunchWindows(plan, arguments, stream);
    case Way::kFewQueries:
      CUDAEP_RETURN_IF_ERROR(LaunchFewQueries(plan, arguments, stream));
      break;
    case Way::kTiles:
      CUDAEP_RETURN_IF_ERROR(LaunchTiles(plan, arguments, stream));
  }
  return plan.splits > 1 ? LaunchJoinSplits(plan, at, stream) : Status::Ok();
}

}  // namespace cudaep::kernels
