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

}  // namespace

RowPlan PlanRows(int64_t rows, int64_t row_elems, size_t widest_bytes, bool packed) {
  RowPlan plan;
  const int pack = RowPack(widest_bytes);
  plan.pack = packed && row_elems % pack == 0 ? pack : 1;
  const int64_t packs = row_elems / plan.pack;
  if (plan.pack == 1) {
    plan.packs_per_thread = kScalarPacks;
  } else {
    const bool small = packs <= kMaxRowThreads && rows <= kSmallProblemPacks / std::max<int64_t>(packs, 1);
    plan.packs_per_thread = small ? 1 : ResidentPacks(widest_bytes);
  }
  const int64_t threads = std::max<int64_t>(CeilDiv<int64_t>(packs, plan.packs_per_thread), 1);
  if (threads > kMaxRowThreads) {
    plan.resident = false;
    plan.width = kStreamThreads;
    return plan;
  }
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

}  // namespace cudaep::kernels
