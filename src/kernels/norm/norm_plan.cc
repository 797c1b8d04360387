#include "kernels/norm/norm_plan.h"

#include <algorithm>
#include <bit>

#include "core/checked_math.h"
#include "device/device_info.h"
#include "kernels/common/row_plan.h"

namespace cudaep::kernels {
namespace {

using Kind = NormPlan::Kind;

static_assert(kMostRowElems + int64_t{kLongThreads} * kLongChunk * kNormCluster * RowPack(2) <= int64_t{1} << 31,
              "a row's elements, and a round of a cluster beyond its end, are numbered in 32 bits");

constexpr int64_t kRowBlockThreads = 128;
// Below this many packs in all a GPU is not full and short threads finish sooner.
constexpr int64_t kSmallProblemPacks = 128 * 1024;
// Of a row that clusters which come and go are better for.
constexpr int64_t kMostRingBytes = int64_t{96} << 10;
constexpr int64_t kRingWarps = kRingThreads / 32;
// Of a team's warp whole lines of 128 bytes: a row is shared out as evenly as they allow.
constexpr int64_t kPiecePacks = 8;
constexpr size_t kSlotBytes = size_t{32} * kNormPacks * kPackBytes;
// At most, of what a block takes beside its ring: barriers, moments, and what the system reserves.
constexpr size_t kOtherSharedBytes = size_t{8} << 10, kBatchOtherBytes = size_t{4} << 10;
constexpr size_t kTeamOtherBytes = size_t{2} * kTeamDepth * kTeamWarps * kTeamCluster * 16 + (size_t{2} << 10);

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kDirect:
      return "direct";
    case Kind::kBatch:
      return "batch";
    case Kind::kTeam:
      return "team";
    case Kind::kRing:
      return "ring";
    case Kind::kLong:
      return "long";
    case Kind::kStream:
      break;
  }
  return "stream";
}

void PlaceRows(NormPlan& plan, int64_t packs, int64_t rows) {
  const int64_t threads = std::max<int64_t>(CeilDiv<int64_t>(packs, plan.packs_per_thread), 1);
  if (threads > 32) {
    plan.width = static_cast<unsigned>(AlignUp<int64_t>(threads, 32));
  } else {
    plan.width = std::bit_ceil(static_cast<unsigned>(threads));
    const int64_t whole_warp = 32 / plan.width, full_block = kRowBlockThreads / plan.width;
    plan.rows_per_block = static_cast<unsigned>(std::clamp(AlignUp(rows, whole_warp), whole_warp, full_block));
  }
  plan.blocks = std::max<int64_t>(CeilDiv<int64_t>(rows, plan.rows_per_block), 1);
}

// As many blocks on a multiprocessor as their registers allow, and as many rows a batch as its shared memory then
// holds. False where that is not two, or where the device holds all rows at once.
bool PlaceBatches(NormPlan& plan, int64_t packs, const NormProblem& problem, const device::DeviceInfo& device,
                  bool forced) {
  const int64_t warps = std::max<int64_t>(CeilDiv<int64_t>(packs, 32 * kNormPacks), 1);
  plan.width = static_cast<unsigned>(warps) * 32;
  plan.rows_per_block = warps == 1 ? static_cast<unsigned>(kRowBlockThreads / 32) : 1;  // only warps share a block
  const int64_t block_warps = warps * plan.rows_per_block, blocks = BatchThreadsAtOnce(problem.skip) / 32 / block_warps;
  const size_t block_bytes =
      std::min(device.shared_bytes_per_multiprocessor / static_cast<size_t>(blocks), device.shared_bytes_per_block);
  const size_t row_bytes = static_cast<size_t>(block_warps) * kSlotBytes * (problem.skip ? 2 : 1);
  const auto held = static_cast<int64_t>((block_bytes - std::min(block_bytes, kBatchOtherBytes)) / row_bytes);
  const int64_t resident = std::max(device.multiprocessors, 1) * blocks * plan.rows_per_block;
  const int64_t rows = std::max<int64_t>(problem.rows, 1), most = std::min<int64_t>(held, kNormBatch);
  plan.depth = static_cast<int>(std::clamp<int64_t>(CeilDiv(rows, resident), 1, std::max<int64_t>(most, 1)));
  plan.blocks = CeilDiv<int64_t>(rows, int64_t{plan.depth} * plan.rows_per_block);
  return held >= 1 && (forced || plan.depth > 1);
}

size_t Slots(size_t bytes) { return (bytes - std::min(bytes, kOtherSharedBytes)) / kSlotBytes; }

// Of a block, where a multiprocessor has `blocks` of them.
int64_t SlotsOfBlock(const device::DeviceInfo& device, size_t blocks) {
  return static_cast<int64_t>(
      Slots(std::min(device.shared_bytes_per_multiprocessor / blocks, device.shared_bytes_per_block)));
}

unsigned MostCluster(const device::DeviceInfo& device, const NormChoice& forced, unsigned most = kNormCluster) {
  return forced.clusters && device.major >= 9 && !device.simulated ? most : 1;
}

// Clusters that come and go, each with a row. False where none holds a row, or the device all rows at once.
bool PlaceRing(NormPlan& plan, int64_t packs, const NormProblem& problem, const device::DeviceInfo& device,
               const NormChoice& forced) {
  const int64_t row_slots = std::max<int64_t>(CeilDiv<int64_t>(packs, 32 * kNormPacks), 1);
  const int64_t room = SlotsOfBlock(device, kRingBlocks);
  const int64_t most = std::min<int64_t>(kRingSlots, room / kRingWarps);
  if (most == 0) return false;
  const unsigned most_blocks = MostCluster(device, forced);
  while (plan.cluster < most_blocks && row_slots > kRingWarps * plan.cluster * most) plan.cluster *= 2;
  const int64_t cluster = plan.cluster, of_warp = CeilDiv(row_slots, kRingWarps * cluster);
  const int64_t resident = std::max<int64_t>(std::max(device.multiprocessors, 1) * kRingBlocks / cluster, 1);
  if (of_warp > most || (!forced.kind && problem.rows < resident)) return false;
  const int64_t warps = CeilDiv(row_slots, cluster * of_warp);
  plan.width = static_cast<unsigned>(warps) * 32;
  plan.slots = static_cast<int>(of_warp);
  plan.blocks = std::max<int64_t>(problem.rows, 1) * cluster;
  return true;
}

// A GPU places clusters of more than two, which share a pair of multiprocessors, in groups of multiprocessors of which
// it has no whole number (15 of 8 on an H200's 132): one that had to wait would double the time.
int64_t ClustersAtOnce(const device::DeviceInfo& device, unsigned cluster) {
  return std::max(device.multiprocessors, 1) / static_cast<int64_t>(cluster) - (cluster > 2 ? 1 : 0);
}

// As few blocks a row as hold it. False where no cluster does, or rows are so few that a team has not two.
bool PlaceTeam(NormPlan& plan, int64_t packs, const NormProblem& problem, const device::DeviceInfo& device,
               const NormChoice& forced) {
  if (!problem.same_affine || problem.elems == 0 || (device.major < 9 && !device.simulated)) return false;
  constexpr int64_t kWarpPacks = 32 * kTeamPacks;
  // What the blocks exchange must be stored in a launch of clusters.
  const int64_t blocks = std::max<int64_t>(CeilDiv<int64_t>(packs, kTeamWarps * kWarpPacks), device.simulated ? 1 : 2);
  if (blocks > MostCluster(device, forced, kTeamCluster)) return false;
  plan.cluster = std::bit_ceil(static_cast<unsigned>(blocks));
  const int64_t piece = AlignUp(CeilDiv<int64_t>(packs, kTeamWarps * plan.cluster), kPiecePacks);
  const size_t room = device.shared_bytes_per_block - std::min(device.shared_bytes_per_block, kTeamOtherBytes);
  const auto depth = static_cast<int64_t>(room / (static_cast<size_t>(piece) * kTeamWarps * kPackBytes));
  const int64_t clusters = std::max<int64_t>(ClustersAtOnce(device, plan.cluster), 1);
  if (depth == 0 || (!forced.kind && (depth == 1 || problem.rows < 2 * clusters))) return false;
  plan.width = kTeamThreads;
  plan.piece = static_cast<int>(piece);
  plan.depth = static_cast<int>(std::min<int64_t>(depth, kTeamDepth));
  plan.blocks = LongBlocks(std::max<int64_t>(problem.rows, 1), clusters) * plan.cluster;
  return true;
}

// As many blocks a row as hold it with a slot to spare for what comes next, and more where rows are few.
void PlaceLong(NormPlan& plan, int64_t packs, const NormProblem& problem, const device::DeviceInfo& device,
               const NormChoice& forced) {
  const int64_t processors = std::max(device.multiprocessors, 1), rows = std::max<int64_t>(problem.rows, 1);
  const unsigned most_cluster = MostCluster(device, forced);
  plan.width = kLongThreads;
  const auto chunks = [&] {  // that a block has
    return CeilDiv(packs, int64_t{kLongThreads} * kLongChunk * plan.cluster);
  };
  const auto room = [&] {
    plan.slots = LongSlots(device, kLongThreads, 1, LongPartBytes(plan.cluster));
    return kNormHeld + plan.slots;
  };
  const auto few = [&] { return rows * plan.cluster * 2 <= processors && chunks() > 1; };
  while (plan.cluster < most_cluster && (chunks() >= room() || few())) plan.cluster *= 2;
  plan.read_once = chunks() <= room();
  plan.blocks = LongBlocks(rows, ClustersAtOnce(device, plan.cluster)) * plan.cluster;
}

}  // namespace

Result<NormPlan> PlanNorm(const NormProblem& problem, const device::DeviceInfo& device, bool packed,
                          const NormChoice& forced) {
  const size_t widest = std::max(SizeOf(problem.x_type), SizeOf(problem.y_type));
  const auto impossible = [&] {
    return InvalidArgument("no ", NameOf(*forced.kind), " normalisation of ", problem.rows, " rows of ", problem.elems,
                           " ", DataTypeName(problem.x_type));
  };
  NormPlan plan;
  const int row_pack = RowPack(widest);
  if (packed && problem.whole_rows && problem.elems % row_pack == 0) plan.pack = row_pack;
  const int64_t packs = problem.elems / plan.pack;
  const bool small = packs <= kNormThreads && problem.rows <= kSmallProblemPacks / std::max<int64_t>(packs, 1);
  plan.packs_per_thread = plan.pack == 1 ? kScalarPacks : small ? 1 : kNormPacks;
  const bool fits_block = CeilDiv<int64_t>(packs, plan.packs_per_thread) <= kNormThreads;
  const bool by_packs = plan.pack > 1 && problem.x_type == problem.y_type && !problem.skip;
  if (forced.kind.value_or(Kind::kBatch) == Kind::kBatch) {
    NormPlan batch = plan;
    batch.kind = Kind::kBatch;
    batch.packs_per_thread = kNormPacks;
    const bool possible = plan.pack > 1 && widest == 2 && problem.same_affine && problem.elems > 0 &&
                          packs <= int64_t{kNormThreads} * kNormPacks;
    // Shorter rows leave lanes of their warp idle, and a small problem ends before a batch pays.
    const bool better = possible && !small && packs >= 32 * kNormPacks / 2;
    if ((forced.kind ? possible : better) && PlaceBatches(batch, packs, problem, device, forced.kind.has_value())) {
      return batch;
    }
    if (forced.kind) return impossible();
  }
  if (forced.kind ? forced.kind == Kind::kTeam : !fits_block) {
    NormPlan team = plan;
    team.kind = Kind::kTeam;
    if (by_packs && PlaceTeam(team, packs, problem, device, forced)) return team;
    if (forced.kind) return impossible();
  }
  const bool short_ring = packs * kPackBytes <= kMostRingBytes;
  const Kind wanted = forced.kind.value_or(fits_block ? Kind::kDirect : short_ring ? Kind::kRing : Kind::kLong);
  if (wanted == Kind::kDirect) {
    if (!fits_block) return impossible();
    PlaceRows(plan, packs, problem.rows);
    return plan;
  }
  if (wanted == Kind::kRing) {
    NormPlan ring = plan;
    ring.kind = Kind::kRing;
    if (by_packs && PlaceRing(ring, packs, problem, device, forced)) return ring;
    if (forced.kind) return impossible();
  }
  if (wanted != Kind::kStream) {
    if (by_packs) {
      plan.kind = Kind::kLong;
      PlaceLong(plan, packs, problem, device, forced);
      return plan;
    }
    if (forced.kind) return impossible();
  }
  plan.kind = Kind::kStream;
  plan.width = kStreamThreads;
  plan.blocks = problem.rows;
  plan.read_once = false;
  return plan;
}

}  // namespace cudaep::kernels
