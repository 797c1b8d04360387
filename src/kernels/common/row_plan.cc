#include "kernels/common/row_plan.h"

#include <algorithm>
#include <bit>

#include "core/checked_math.h"

namespace cudaep::kernels {
namespace {

constexpr int64_t kRowBlockThreads = 128;
// Below this many packs in all a GPU is not full and short threads finish sooner.
constexpr int64_t kSmallProblemPacks = 128 * 1024;
// Blocks that keep a large device busy to the end; beyond that each takes several rows.
constexpr int64_t kManyBlocks = 4096;
constexpr int64_t kMaxIterations = 8;

int UsualPacks(int64_t rows, int64_t packs, int pack, size_t widest_bytes) {
  if (pack == 1) return kScalarPacks;
  const bool small = packs <= kMaxRowThreads && rows <= kSmallProblemPacks / std::max<int64_t>(packs, 1);
  return small ? 1 : ResidentPacks(widest_bytes);
}

int64_t ThreadsOf(const RowPlan& plan, int64_t packs) {
  return std::max<int64_t>(CeilDiv<int64_t>(packs, plan.packs_per_thread), 1);
}

RowPlan Streamed(RowPlan plan) {
  plan.resident = false;
  plan.width = kStreamThreads;
  return plan;
}

RowPlan Resident(RowPlan plan, int64_t rows, int64_t threads, size_t widest_bytes) {
  if (threads > 32) {
    plan.width = static_cast<unsigned>(AlignUp<int64_t>(threads, 32));
  } else {
    plan.width = std::bit_ceil(static_cast<unsigned>(threads));
    const int64_t whole_warp = 32 / plan.width, full_block = kRowBlockThreads / plan.width;
    plan.rows_per_block = static_cast<unsigned>(std::clamp(AlignUp(rows, whole_warp), whole_warp, full_block));
  }
  // Threads have half as many bytes of 16-bit elements on the way, so the next row is loaded early (measured on an
  // H200: 62 to 77% of the device copy for softmax of 16384 x 4096; wider types lose by it).
  if (widest_bytes == 2) {
    plan.iterations =
        static_cast<int>(std::clamp<int64_t>(rows / plan.rows_per_block / kManyBlocks, 1, kMaxIterations));
  }
  return plan;
}

}  // namespace

RowPlan PlanRows(int64_t rows, int64_t row_elems, size_t widest_bytes, bool packed) {
  RowPlan plan;
  const int pack = RowPack(widest_bytes);
  plan.pack = packed && row_elems % pack == 0 ? pack : 1;
  const int64_t packs = row_elems / plan.pack;
  plan.packs_per_thread = UsualPacks(rows, packs, plan.pack, widest_bytes);
  const int64_t threads = ThreadsOf(plan, packs);
  return threads > kMaxRowThreads ? Streamed(plan) : Resident(plan, rows, threads, widest_bytes);
}

Result<RowPlan> PlanRows(int64_t rows, int64_t row_elems, size_t widest_bytes, const RowChoice& forced) {
  RowPlan plan;
  plan.pack = forced.packs ? RowPack(widest_bytes) : 1;
  if (forced.packs && (plan.pack == 1 || row_elems % plan.pack != 0)) {
    return InvalidArgument("rows of ", row_elems, " elements of ", widest_bytes, " bytes are not whole packs");
  }
  const int64_t packs = row_elems / plan.pack;
  const int most = plan.pack == 1 ? kScalarPacks : ResidentPacks(widest_bytes);
  plan.packs_per_thread =
      forced.packs_per_thread != 0 ? forced.packs_per_thread : UsualPacks(rows, packs, plan.pack, widest_bytes);
  if (plan.packs_per_thread != most && (plan.pack == 1 || plan.packs_per_thread != 1)) {
    return InvalidArgument("no kernel has ", plan.packs_per_thread, " packs of ", plan.pack, " for each thread");
  }
  if (!forced.resident) return Streamed(plan);
  const int64_t threads = ThreadsOf(plan, packs);
  if (threads > kMaxRowThreads) {
    return InvalidArgument("a row of ", row_elems, " elements needs ", threads, " threads with ", plan.packs_per_thread,
                           " packs of ", plan.pack, " each, a block has ", kMaxRowThreads);
  }
  return Resident(plan, rows, threads, widest_bytes);
}

}  // namespace cudaep::kernels
