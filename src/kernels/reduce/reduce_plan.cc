#include <algorithm>
#include <bit>

#include "core/checked_math.h"
#include "kernels/index_limit.h"
#include "kernels/reduce/reduce.h"
#include "kernels/reduce/reduce_limits.h"

namespace cudaep::kernels {
namespace {

constexpr int64_t kMaxSplits = 1024;
constexpr int64_t kMinRoundsOfSplit = 8;  // loads of each thread that make another block worth its merge
// Of a column of means, fewer loads than these take less time than a split's merge (2 us on an H200).
constexpr int64_t kFewestRoundsToSplit = 48;
constexpr int64_t kThreadsPerMultiprocessor = 2048;
// Blocks that split outputs, all of one length, are no more than a multiprocessor has the registers for at once: what
// is left over for a second round would take as long as the first.
constexpr int64_t kResidentThreads = 1280;
constexpr int64_t kRowBlockThreads = 128;
constexpr unsigned kSectorPacks = 2;

Status Append(ReduceDims& dims, int64_t size, int64_t stride, Dims shape) {
  if (dims.rank == kMaxReduceRank) {
    return NotSupported("reducing ", shape, " needs more than ", kMaxReduceRank, " kept or reduced dimensions");
  }
  dims.size[dims.rank] = size;
  dims.stride[dims.rank] = stride;
  ++dims.rank;
  return Status::Ok();
}

// Makes the innermost dimension count packs.
void CountPacks(ReduceDims& dims, int pack) {
  dims.size[0] /= pack;
  dims.stride[0] *= pack;
}

void Finish(ReduceDims& dims) {
  dims.elems = 1;
  for (int i = 0; i < dims.rank; ++i) dims.elems *= dims.size[i];
  dims.wide = FitsIndex(dims.elems) ? 0 : 1;
  if (dims.elems == 0 || dims.wide) return;
  for (int i = 0; i < dims.rank; ++i) dims.divider[i] = FastDivider(static_cast<uint32_t>(dims.size[i]));
}

// Loads of one thread in a launch that fills the device, or fewer where there is not enough work for that.
int64_t LoadsPerThread(const ReducePlan& plan, int64_t device_threads) {
  const double loads = static_cast<double>(plan.kept.elems) * static_cast<double>(plan.reduced.elems);
  return std::clamp<int64_t>(static_cast<int64_t>(loads / static_cast<double>(device_threads)), 1, 16);
}

void ShapeRowBlock(ReducePlan& plan, int64_t device_threads) {
  const int64_t threads = CeilDiv(std::max<int64_t>(plan.reduced.elems, 1), LoadsPerThread(plan, device_threads));
  if (threads > 32) {
    plan.width = static_cast<unsigned>(std::min<int64_t>(AlignUp<int64_t>(threads, 32), kReduceThreads));
    return;
  }
  plan.width = std::bit_ceil(static_cast<unsigned>(threads));
  const int64_t whole_warp = 32 / plan.width, full_block = kRowBlockThreads / plan.width;
  plan.height = static_cast<unsigned>(std::clamp(AlignUp(plan.kept.elems, whole_warp), whole_warp, full_block));
}

void ShapeColumnBlock(ReducePlan& plan, int64_t device_threads) {
  plan.width = plan.kept.elems >= 32 ? 32 : std::bit_ceil(static_cast<unsigned>(plan.kept.elems));
  // Few outputs, as of the means of one image, go to more multiprocessors in narrow blocks: of a sector in a row, 32
  // bytes, at the least. Then a thread has few loads, and those are at once.
  const int64_t multiprocessors = device_threads / kThreadsPerMultiprocessor;
  while (plan.column_pack > 1 && plan.width > kSectorPacks && plan.kept.elems < multiprocessors * plan.width) {
    plan.width /= 2;
  }
  const int64_t lanes = CeilDiv(std::max<int64_t>(plan.reduced.elems, 1), LoadsPerThread(plan, device_threads));
  plan.height = std::bit_floor(static_cast<unsigned>(std::min<int64_t>(lanes, kReduceThreads / plan.width)));
  if (plan.height == 1 && plan.kept.elems >= kReduceThreads) plan.width = kReduceThreads;
}

// Blocks for each output, so that few outputs of long reductions fill the device too.
Status Split(ReducePlan& plan, int64_t resident_threads, int forced) {
  const int64_t lanes = plan.columns ? plan.height : plan.width;
  const int64_t per_block = plan.columns ? plan.width : plan.height;
  const int64_t blocks = CeilDiv(plan.kept.elems, per_block);
  if (forced > 0) {
    if (forced > 1 && (forced > plan.reduced.elems || forced > kMaxSplits || blocks > kReduceTickets)) {
      return InvalidArgument(forced, " blocks for each output, of ", plan.outputs, " with ", plan.count,
                             " elements each");
    }
    plan.splits = forced;
  } else if (plan.columns || plan.width > 32) {
    const int64_t wanted = resident_threads / std::max<int64_t>(blocks * plan.width * plan.height, 1);
    const int64_t rounds = plan.reduced.elems / lanes;
    const int64_t worthwhile = plan.columns && rounds < kFewestRoundsToSplit ? 1 : rounds / kMinRoundsOfSplit;
    if (blocks <= kReduceTickets) {
      plan.splits = static_cast<int>(std::clamp<int64_t>(std::min(wanted, worthwhile), 1, kMaxSplits));
    }
  }
  if (plan.splits > 1) plan.workspace_bytes = static_cast<size_t>(ReducePartialBytes(plan));
  return Status::Ok();
}

}  // namespace

Result<ReducePlan> PlanReduce(Dims dims, std::span<const bool> reduced, ReduceOp op, DataType type, int multiprocessors,
                              bool packed, int forced_splits) {
  ReducePlan plan;
  int64_t stride = 1;
  bool last_is_reduced = false, first = true;
  plan.outputs = plan.count = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    const int64_t dim = dims[i];
    (reduced[i] ? plan.count : plan.outputs) *= dim;
    if (dim == 1) continue;
    ReduceDims& kind = reduced[i] ? plan.reduced : plan.kept;
    if (first || reduced[i] != last_is_reduced) {
      if (first) plan.columns = !reduced[i];
      CUDAEP_RETURN_IF_ERROR(Append(kind, dim, stride, dims));
    } else {
      kind.size[kind.rank - 1] *= dim;
    }
    last_is_reduced = reduced[i];
    first = false;
    stride *= dim;
  }
  if (plan.outputs == 0) return plan;
  if ((op == ReduceOp::kArgMax || op == ReduceOp::kArgMin) && !FitsInt32(plan.count)) {
    return NotSupported("positions among ", plan.count, " elements, more than 2^31 - 1");
  }

  const int pack = ReducePack(op, type);
  ReduceDims& innermost = plan.columns ? plan.kept : plan.reduced;
  if (packed && pack > 1 && innermost.rank > 0 && innermost.size[0] % pack == 0) {
    CountPacks(innermost, pack);
    (plan.columns ? plan.column_pack : plan.row_pack) = pack;
  }
  Finish(plan.kept);
  Finish(plan.reduced);

  const int64_t device_threads = multiprocessors * kThreadsPerMultiprocessor;
  if (plan.columns) {
    ShapeColumnBlock(plan, device_threads);
  } else {
    ShapeRowBlock(plan, device_threads);
  }
  CUDAEP_RETURN_IF_ERROR(Split(plan, multiprocessors * kResidentThreads, forced_splits));
  return plan;
}

}  // namespace cudaep::kernels
