#include <algorithm>

#include "core/checked_math.h"
#include "device/device_info.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/flash.h"
#include "kernels/common/tensor_cores.h"
#include "kernels/gemm/warpgroup_tiles.h"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

// Joining parts is one more launch, as long as a block works on some tiles of keys.
constexpr int64_t kLeastKeysToSplit = 384, kLeastKeysOfSplit = 64;
constexpr int kWarpsOfProcessor = 8;  // that have enough loads in flight

size_t SharedBytes(const AttentionPlan& plan) {
  const auto elem_bytes = static_cast<int64_t>(SizeOf(plan.problem.type));
  const int64_t pad = 16 / elem_bytes;
  const int64_t keys = TileKeys(plan.kernel), rows = int64_t{plan.warps} * kWarpRows;
  const int64_t q = rows * (plan.depth_chunks() * plan.depth + pad);
  const int64_t k = 2 * keys * (plan.depth + pad);
  const int64_t v = keys * (plan.value_tile + pad);
  const int64_t added = 2 * keys;
  const int64_t weights = plan.kernel == AttentionKernel::kPlain ? rows * (keys + kWeightPad) : 0;
  const auto sum_bytes = static_cast<int64_t>(SizeOf(plan.problem.compute));
  return static_cast<size_t>((q + k + v) * elem_bytes + (added + weights) * sum_bytes);
}

// Chunks of equal depth, whole 16 elements.
int DepthOf(int64_t head_size, int64_t most) {
  const int64_t chunks = CeilDiv(head_size, most);
  return static_cast<int>(AlignUp(CeilDiv(head_size, chunks), int64_t{16}));
}

// Fewer rows first, which only costs speed where keys are read more often; then less depth.
Status FitSharedMemory(AttentionPlan& plan, const device::DeviceInfo& device, const AttentionChoice& forced) {
  const auto fits = [&] { return (plan.shared_bytes = SharedBytes(plan)) <= device.shared_bytes_per_block; };
  while (!fits()) {
    if (forced.warps == 0 && plan.warps > 1) {
      plan.warps /= 2;
    } else if (forced.depth == 0 && plan.depth > 16) {
      plan.depth = DepthOf(plan.problem.head_size, plan.depth / 2 < 16 ? 16 : plan.depth / 2);
    } else {
      return NotSupported("a head of ", plan.problem.head_size, " elements of ", DataTypeName(plan.problem.type),
                          " needs ", plan.shared_bytes, " bytes of shared memory, the device has ",
                          device.shared_bytes_per_block);
    }
  }
  return Status::Ok();
}

// Keys are split where there are too few blocks for the device and each part still has work: equal numbers of tiles,
// but for the last part.
int SplitsOf(const AttentionPlan& plan, const device::DeviceInfo& device) {
  const int64_t tiles = CeilDiv(plan.problem.keys, int64_t{TileKeys(plan.kernel)});
  if (plan.problem.keys < kLeastKeysToSplit) return 1;
  const int64_t least = kLeastKeysOfSplit * (plan.few_queries ? 2 : 1);
  const int64_t most = std::min<int64_t>(CeilDiv(plan.problem.keys, least), kMostSplits);
  const int64_t blocks = std::max<int64_t>(FlashBlocks(plan), 1);
  const int warps = plan.few_queries ? kFewQueriesWarps : plan.warps;
  const int64_t wanted = int64_t{std::max(device.multiprocessors, 1)} * std::max(kWarpsOfProcessor / warps, 1);
  const int64_t parts = std::clamp<int64_t>(wanted / blocks, 1, most);
  return static_cast<int>(CeilDiv(tiles, CeilDiv(tiles, parts)));
}

// Of one part of the keys.
size_t PartBytes(const AttentionProblem& p) {
  return static_cast<size_t>(p.batch * p.heads * p.queries * (p.v_head_size + 2)) * SizeOf(p.compute);
}

constexpr int64_t kMostOfGrid = 65535;

bool HasWholeRows(const AttentionPlan& plan) {
  const AttentionProblem& p = plan.problem;
  return plan.kernel == AttentionKernel::kTensorCores && p.scores == AttentionScores::kNone &&
         p.keys <= kWholeRowsKeys && p.head_size <= kWholeRowsHead && p.v_head_size <= kWholeRowsHead &&
         p.heads <= kMostOfGrid && p.batch <= kMostOfGrid;
}

// BERT-base in fp16 on an H200, 128 tokens, us a Run at batch 1, 8, 32: tiles of keys 501, 750, 1,822; whole rows by
// one warp 477, 798, 1,925, by two 458, 697, 1,779, by four 453, 690, 1,719.
int WholeRowsWarps(const AttentionPlan& plan) {
  if (!HasWholeRows(plan) || plan.packed > 1) return 0;
  return static_cast<int>(std::clamp<int64_t>(CeilDiv(plan.problem.queries, int64_t{kWarpRows}), 1, kMostWarps));
}

bool HasWindows(const AttentionPlan& plan) {
  const AttentionProblem& p = plan.problem;
  return plan.kernel == AttentionKernel::kTensorCores && p.scores == AttentionScores::kNone && p.bias &&
         p.softcap == 0 && p.keys <= kWindowKeys && p.queries <= kWindowKeys && p.head_size == kWindowHead &&
         p.v_head_size == kWindowHead && FitsInt32(p.heads * p.batch);
}

// A warp for each window where those are enough to fill the device, else one for each of its tiles of rows.
int WindowWarps(const AttentionPlan& plan, const device::DeviceInfo& device) {
  if (!HasWindows(plan)) return 0;
  const int64_t tiles = std::clamp<int64_t>(CeilDiv(plan.problem.queries, int64_t{kWarpRows}), 1, kMostWarps);
  const int64_t windows = plan.problem.heads * plan.problem.batch;
  return static_cast<int>(windows >= int64_t{kWarpsOfProcessor} * device.multiprocessors ? 1 : tiles);
}

bool HasFewQueries(const AttentionPlan& plan) {
  const AttentionProblem& p = plan.problem;
  return plan.kernel == AttentionKernel::kTensorCores && p.scores == AttentionScores::kNone &&
         (p.head_size == 64 || p.head_size == 128) && p.v_head_size == p.head_size &&
         plan.value_tile >= p.v_head_size && plan.warps == 1 && plan.rows() <= kWarpRows;
}

// Few queries of more keys have a kernel of their own.
bool SuitsWarpgroupHeads(const AttentionPlan& plan, const device::DeviceInfo& device) {
  return TakesWarpgroupHeads(plan.problem, device) && plan.packed == 1 &&
         (plan.problem.keys <= kWholeRowsKeys || !HasFewQueries(plan));
}

Status CheckForced(const AttentionPlan& plan, const AttentionChoice& forced, const device::DeviceInfo& device) {
  const AttentionProblem& p = plan.problem;
  const int64_t group = p.heads / p.kv_heads;
  if (forced.warps < 0 || forced.warps > kMostWarps) return InvalidArgument("a block has no ", forced.warps, " warps");
  if (forced.packed != 0 && forced.packed != 1 && forced.packed != group) {
    return InvalidArgument("either 1 or ", group, " heads are packed, not ", forced.packed);
  }
  if (forced.value_tile != 0 && forced.value_tile != 64 && !(forced.value_tile == 128 && HasWideTile(plan))) {
    return InvalidArgument("no kernel handles ", forced.value_tile, " columns of v");
  }
  if (forced.depth < 0 || forced.depth % 16 != 0) return InvalidArgument("depth ", forced.depth, " is not whole 16");
  if (forced.whole_rows_warps < 0 || forced.whole_rows_warps > kMostWarps ||
      (forced.whole_rows_warps != 0 && !HasWholeRows(plan))) {
    return InvalidArgument("no block of ", forced.whole_rows_warps, " warps has all ", p.keys, " keys of a head");
  }
  if (forced.warpgroup_heads && !TakesWarpgroupHeads(p, device)) {
    return InvalidArgument("no kernel of warpgroups has all ", p.keys, " keys of a head");
  }
  if (forced.window_warps < 0 || forced.window_warps > kMostWarps || (forced.window_warps != 0 && !HasWindows(plan))) {
    return InvalidArgument("no ", forced.window_warps, " warps share a window of ", p.keys, " keys");
  }
  if (forced.splits > kMostSplits) return InvalidArgument("keys are split into ", kMostSplits, " parts at most");
  if (forced.splits < 0 || (forced.splits > 1 && p.scores != AttentionScores::kNone)) {
    return InvalidArgument("keys are not split into ", forced.splits, " parts where scores are wanted");
  }
  return Status::Ok();
}

}  // namespace

bool TakesWarpgroupHeads(const AttentionProblem& p, const device::DeviceInfo& device) {
  constexpr int64_t kPack = PackElems(2);  // that is moved at once
  return kFloat16Types.Contains(p.type) && p.compute == DataType::kFloat && HasWarpgroups(device) &&
         p.scores == AttentionScores::kNone && p.keys <= kWarpgroupHeadsKeys && p.head_size <= kWarpgroupHeadsHead &&
         p.v_head_size <= kWarpgroupHeadsHead && p.head_size % kPack == 0 && p.v_head_size % kPack == 0 &&
         p.heads <= kMostOfGrid && p.batch <= kMostOfGrid;
}

bool HasWideTile(const AttentionPlan& plan) {
  return plan.problem.scores == AttentionScores::kNone && !IsRareKernel(plan) && plan.problem.type != DataType::kDouble;
}

bool IsRareKernel(const AttentionPlan& plan) {
  const AttentionProblem& p = plan.problem;
  return plan.kernel == AttentionKernel::kPlain && p.type != p.compute;
}

int64_t FlashBlocks(const AttentionPlan& plan) {
  const AttentionProblem& p = plan.problem;
  return CeilDiv(plan.rows(), int64_t{plan.warps} * kWarpRows) * (p.heads / plan.packed) * p.batch *
         std::max<int64_t>(CeilDiv(p.v_head_size, int64_t{plan.value_tile}), 1);
}

int64_t WindowEntries(const AttentionProblem& problem) {
  const ScoreStrides& strides = problem.bias_strides;
  if (strides.batch == 0) return 1;
  return strides.batches == 0 ? problem.batch : std::min(strides.batches, problem.batch);
}

Result<AttentionPlan> PlanAttention(const AttentionProblem& problem, const device::DeviceInfo& device,
                                    const AttentionChoice& forced) {
  for (const int64_t size : {problem.heads * problem.queries, problem.keys, problem.head_size, problem.v_head_size}) {
    if (!FitsInt32(size)) return NotSupported("attention over ", size, " rows or columns, more than 2^31");
  }
  AttentionPlan plan;
  plan.problem = problem;
  const bool wide_compute = problem.compute == DataType::kDouble;
  const bool tensor_cores = !wide_compute && HasTensorCores(problem.type, device);
  plan.kernel = tensor_cores ? AttentionKernel::kTensorCores : AttentionKernel::kPlain;
  CUDAEP_RETURN_IF_ERROR(CheckForced(plan, forced, device));

  const int64_t group = problem.heads / problem.kv_heads;
  // Few queries of many heads fill the rows of a matrix together and read the keys once.
  const bool packs = group > 1 && problem.queries < int64_t{kMostWarps} * kWarpRows;
  plan.packed = forced.packed != 0 ? forced.packed : static_cast<int>(packs ? group : 1);
  const auto warps = std::clamp<int64_t>(CeilDiv(plan.rows(), int64_t{kWarpRows}), 1, kMostWarps);
  plan.warps = forced.warps != 0 ? forced.warps : static_cast<int>(warps);
  const bool wide = problem.v_head_size > 64 && HasWideTile(plan);
  plan.value_tile = forced.value_tile != 0 ? forced.value_tile : wide ? 128 : 64;
  const int64_t most_depth = tensor_cores ? 128 : 64;
  plan.depth = forced.depth != 0 ? forced.depth : DepthOf(problem.head_size, most_depth);
  CUDAEP_RETURN_IF_ERROR(FitSharedMemory(plan, device, forced));
  const bool splits = problem.scores == AttentionScores::kNone;
  plan.whole_rows_warps = forced == AttentionChoice{} ? WholeRowsWarps(plan) : forced.whole_rows_warps;
  plan.warpgroup_heads = forced == AttentionChoice{} ? SuitsWarpgroupHeads(plan, device) : forced.warpgroup_heads;
  plan.window_warps = forced == AttentionChoice{} ? WindowWarps(plan, device) : forced.window_warps;
  plan.few_queries = forced == AttentionChoice{} ? HasFewQueries(plan) : forced.few_queries;
  if (plan.few_queries && !HasFewQueries(plan)) {
    return InvalidArgument("no kernel of few queries has ", plan.rows(), " rows of ", problem.head_size, " elements");
  }
  plan.splits = forced.splits != 0 ? forced.splits : splits ? SplitsOf(plan, device) : 1;
  if (plan.splits > 1) plan.scratch_bytes = static_cast<size_t>(plan.splits) * PartBytes(problem);
  if (plan.splits > 1 && !FitsInt32(problem.batch * problem.heads * problem.queries)) {
    return NotSupported("attention of more than 2^31 rows whose keys are split");
  }
  if (!FitsInt32(FlashBlocks(plan) * plan.splits)) return NotSupported("attention of more than 2^31 blocks");
  return plan;
}

void FitScratch(AttentionPlan& plan, size_t bytes) {
  if (plan.scratch_bytes <= bytes) return;
  const size_t part = PartBytes(plan.problem);
  plan.splits = static_cast<int>(std::max<size_t>(bytes / part, 1));
  plan.scratch_bytes = plan.splits > 1 ? static_cast<size_t>(plan.splits) * part : 0;
}

}  // namespace cudaep::kernels
