#include "kernels/norm/norm_plan.h"

#include <algorithm>
#include <bit>

#include "core/checked_math.h"
#include "kernels/common/row_plan.h"

namespace cudaep::kernels {
namespace {

using Kind = NormPlan::Kind;

constexpr int64_t kRowBlockThreads = 128;
// Below this many packs in all a GPU is not full and short threads finish sooner.
constexpr int64_t kSmallProblemPacks = 128 * 1024;
// Threads of a multiprocessor that have their registers at once.
constexpr int64_t kResidentThreads = 512;
// More of short rows, so that others take the place of those that have ended (measured on an H200: 78 to 83% of the
// device copy for 65536 x 1024 in fp16).
constexpr int64_t kResidentThreadsOfShortRows = 768;
constexpr unsigned kShortRowThreads = 64;
// Of the rings of a multiprocessor: what covers the latency of memory, and more where one block has to cover for what
// the blocks of its cluster wait for.
constexpr size_t kRingBytes = size_t{64} << 10, kClusterRingBytes = size_t{192} << 10;
// At most, of what a block takes beside its ring: barriers, moments, and what the system reserves.
constexpr size_t kOtherSharedBytes = size_t{8} << 10;

const char* NameOf(Kind kind) { return kind == Kind::kDirect ? "direct" : kind == Kind::kRing ? "ring" : "stream"; }

void PlaceThreads(NormPlan& plan, int64_t threads, int64_t rows) {
  if (threads > 32) {
    plan.width = static_cast<unsigned>(AlignUp<int64_t>(threads, 32));
    return;
  }
  plan.width = plan.kind == Kind::kRing ? 32 : std::bit_ceil(static_cast<unsigned>(threads));
  const int64_t whole_warp = 32 / plan.width, full_block = kRowBlockThreads / plan.width;
  plan.rows_per_block = static_cast<unsigned>(std::clamp(AlignUp(rows, whole_warp), whole_warp, full_block));
}

// As few rounds as there can be, and of blocks no more than these take.
int64_t BlocksFor(const NormPlan& plan, int64_t rows, int64_t resident_blocks) {
  const int64_t groups = std::max<int64_t>(CeilDiv<int64_t>(rows, plan.rows_per_block), 1);
  const int64_t resident = std::max<int64_t>(resident_blocks / plan.cluster, 1);
  return CeilDiv(groups, CeilDiv(groups, resident)) * plan.cluster;
}

}  // namespace

Result<NormPlan> PlanNorm(const NormProblem& problem, const device::DeviceInfo& device, bool packed,
                          std::optional<Kind> forced) {
  const size_t widest = std::max(SizeOf(problem.x_type), SizeOf(problem.y_type));
  const auto impossible = [&] {
    return InvalidArgument("no ", NameOf(*forced), " normalisation of ", problem.rows, " rows of ", problem.elems, " ",
                           DataTypeName(problem.x_type));
  };
  NormPlan plan;
  const int row_pack = RowPack(widest);
  if (packed && problem.whole_rows && problem.elems % row_pack == 0) plan.pack = row_pack;
  const int64_t packs = problem.elems / plan.pack;
  const bool ring_possible = plan.pack > 1 && problem.x_type == problem.y_type;
  const bool small = packs <= kNormThreads && problem.rows <= kSmallProblemPacks / std::max<int64_t>(packs, 1);
  plan.packs_per_thread = plan.pack == 1 ? kScalarPacks : small && forced != Kind::kRing ? 1 : kNormPacks;
  const int64_t threads = std::max<int64_t>(CeilDiv<int64_t>(packs, plan.packs_per_thread), 1);
  const int64_t most_blocks = device.major >= 9 && !device.simulated ? kNormCluster : 1;
  const bool fits_block = threads <= kNormThreads;
  const bool fits_ring = ring_possible && threads <= kNormThreads * most_blocks;
  if (forced) {
    if ((*forced == Kind::kDirect && !fits_block) || (*forced == Kind::kRing && !fits_ring)) return impossible();
    plan.kind = *forced;
  } else {
    // Rows that all have a block of their own at once need no ring, and a small problem ends before one pays (H200,
    // 1024 x 768 in fp16: 6.0 us with a ring, 3.6 without).
    const int64_t rows_at_once = device.multiprocessors * std::max<int64_t>(kResidentThreads / threads, 1);
    const bool direct = fits_block && (!ring_possible || small || threads < 32 || problem.rows <= rows_at_once);
    plan.kind = direct ? Kind::kDirect : fits_ring ? Kind::kRing : Kind::kStream;
  }
  const int64_t processors = std::max(device.multiprocessors, 1);
  if (plan.kind == Kind::kStream) {
    plan.width = kStreamThreads;
    plan.blocks = problem.rows;
    return plan;
  }
  plan.cluster = fits_block ? 1 : std::bit_ceil(static_cast<unsigned>(CeilDiv<int64_t>(threads, kNormThreads)));
  PlaceThreads(plan, CeilDiv<int64_t>(threads, plan.cluster), problem.rows);
  const int64_t block_threads = int64_t{plan.width} * plan.rows_per_block;
  const bool short_rows = plan.kind == Kind::kRing && plan.width <= kShortRowThreads;
  const int64_t resident =
      std::max<int64_t>((short_rows ? kResidentThreadsOfShortRows : kResidentThreads) / block_threads, 1);
  // A GPU places one cluster of 8 less at once than its multiprocessors would hold (15 on an H200's 132): one that had
  // to wait for the others would double the time.
  const int64_t clustered =
      plan.cluster == 1 ? processors : std::max<int64_t>(processors / plan.cluster - 1, 1) * plan.cluster;
  plan.blocks = BlocksFor(plan, problem.rows, clustered * resident);
  if (plan.kind == Kind::kRing) {
    const size_t tensors = problem.skip ? 2 : 1;
    const size_t row_bytes = static_cast<size_t>(block_threads) * kNormPacks * kPackBytes * tensors;
    const size_t available = device.shared_bytes_per_block - std::min(device.shared_bytes_per_block, kOtherSharedBytes);
    if (row_bytes > available) {  // not even one row
      if (forced) return impossible();
      return PlanNorm(problem, device, packed, fits_block ? Kind::kDirect : Kind::kStream);
    }
    const size_t limit = std::min(plan.cluster == 1 ? kRingBytes : kClusterRingBytes, available);
    const size_t fitting = limit / static_cast<size_t>(resident) / row_bytes;
    plan.depth = static_cast<int>(std::clamp<size_t>(fitting, 1, kNormSlots / tensors));
  } else {
    // Threads that load one row at a time go on as little as they can.
    plan.blocks = BlocksFor(plan, problem.rows, processors * std::max<int64_t>(4 * resident, 1));
  }
  return plan;
}

}  // namespace cudaep::kernels
