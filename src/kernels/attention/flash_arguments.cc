#include <cmath>

#include "core/checked_math.h"
#include "kernels/attention/flash.h"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

FlashAdded AddedTo(const AttentionPlan& plan, const AttentionPointers& at) {
  const AttentionProblem& p = plan.problem;
  const bool mask = p.mask != AttentionMask::kNone;
  // Keys outside of their range that are walked over: none are where nobody sees them, but all where scores are wanted.
  const bool range = at.key_end != nullptr || at.key_begin != nullptr;
  const bool outside = range && (!std::isinf(p.masked) || p.scores != AttentionScores::kNone);
  if (!mask && !p.bias && !outside) return FlashAdded::kNothing;
  const auto by_key = [&](const ScoreStrides& strides) {
    return strides.query == 0 && (strides.head == 0 || plan.packed == 1);
  };
  const bool same = (!mask || by_key(p.mask_strides)) && (!p.bias || by_key(p.bias_strides));
  return same ? FlashAdded::kByKey : FlashAdded::kByScore;
}

// A bias for each score, and nothing else that hides keys but a window. Scores that are wanted and, of windows, softcap
// are the planner's to look at.
bool TakesBias(const FlashArguments& arguments) {
  const AttentionPointers& at = arguments.at;
  return arguments.added == FlashAdded::kByScore && arguments.problem.mask == AttentionMask::kNone &&
         at.key_end == nullptr && at.key_begin == nullptr && at.sink == nullptr && !at.zero_sink &&
         arguments.q_aligned != 0 && arguments.k_aligned != 0 && arguments.v_aligned != 0 && arguments.y_aligned != 0;
}

}  // namespace

bool IsWhole(const AttentionProblem& p, const void* pointer, const AttentionStrides& strides, int64_t pack) {
  return IsAligned(pointer, static_cast<size_t>(pack) * SizeOf(p.type)) && strides.batch % pack == 0 &&
         strides.head % pack == 0 && strides.row % pack == 0;
}

FlashArguments MakeFlashArguments(const AttentionPlan& plan, const AttentionPointers& at) {
  const AttentionProblem& p = plan.problem;
  const int64_t pack = kPackBytes / static_cast<int64_t>(SizeOf(p.type));
  return {.problem = p,
          .at = at,
          .row_tiles = CeilDiv(plan.rows(), int64_t{plan.warps} * kWarpRows),
          .head_groups = p.heads / plan.packed,
          .value_chunks = std::max<int64_t>(CeilDiv(p.v_head_size, int64_t{plan.value_tile}), 1),
          .packed = plan.packed,
          .group = static_cast<int>(p.heads / p.kv_heads),
          .splits = plan.splits,
          .depth = plan.depth,
          .depth_chunks = static_cast<int>(plan.depth_chunks()),
          .q_aligned = IsWhole(p, at.q, p.q, pack),
          .k_aligned = IsWhole(p, at.k, p.k, pack),
          .v_aligned = IsWhole(p, at.v, p.v, pack),
          .y_aligned = IsWhole(p, at.y, p.y, pack),
          .y_pairs = p.v_head_size % 2 == 0 ? IsWhole(p, at.y, p.y, 2) : 0,
          .windowed = p.past + p.queries - 1 > p.left || p.past + p.right + 1 < p.keys ? 1 : 0,
          .added = AddedTo(plan, at)};
}

FlashMode FlashModeOf(const FlashArguments& arguments) {
  const AttentionProblem& p = arguments.problem;
  if (p.scores != AttentionScores::kNone) return FlashMode::kScores;
  const bool aligned =
      arguments.q_aligned != 0 && arguments.k_aligned != 0 && arguments.v_aligned != 0 && arguments.y_pairs != 0;
  const bool sink = arguments.at.sink != nullptr || arguments.at.zero_sink;
  const bool plain = aligned && !sink && p.softcap == 0 && arguments.added != FlashAdded::kByScore;
  return plain ? FlashMode::kPlain : FlashMode::kAny;
}

bool TakesWholeHead(const FlashArguments& arguments) {
  return arguments.at.key_end == nullptr && arguments.at.key_begin == nullptr &&
         FlashModeOf(arguments) == FlashMode::kPlain;
}

bool TakesWindows(const FlashArguments& arguments) { return TakesBias(arguments) && arguments.windowed == 0; }

bool HasAlignedBiasRows(const AttentionProblem& p) {
  const ScoreStrides& s = p.bias_strides;
  const auto pack = static_cast<int64_t>(kPackBytes / SizeOf(p.type));
  return p.bias && s.key == 1 && (s.batch | s.head | s.query) % pack == 0;
}

bool TakesWarpgroupBias(const FlashArguments& arguments) {
  return TakesBias(arguments) && arguments.problem.softcap == 0 && HasAlignedBiasRows(arguments.problem) &&
         IsAligned(arguments.at.bias, kPackBytes);
}

}  // namespace cudaep::kernels
