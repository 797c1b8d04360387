#include "kernels/gemm/warpgroup_tiles.h"

#include <algorithm>

#include "core/checked_math.h"

namespace cudaep::kernels {

int64_t WarpgroupTileCount(int64_t m, int64_t n, WarpgroupTiles tiles) {
  return CeilDiv(m, WarpgroupRows(tiles)) * CeilDiv(n, WarpgroupColumns(tiles));
}

bool HasWarpgroups(const device::DeviceInfo& device) { return device.simulated || device.major == 9; }

bool TakesWarpgroups(int64_t m, int64_t n, int64_t k, const device::DeviceInfo& device) {
  const auto fits = [](int64_t size) { return size > 0 && size <= INT32_MAX / 2; };
  return fits(m) && fits(n) && fits(k) && WarpgroupTileCount(m, n, WarpgroupTiles::kSmall) <= INT32_MAX / 2 &&
         HasWarpgroups(device) && device.shared_bytes_per_block >= kWarpgroupSharedBytes;
}

WarpgroupPlan PlanWarpgroups(int64_t m, int64_t n, WarpgroupTiles tiles, const device::DeviceInfo& device) {
  const int64_t together = WarpgroupBlocksTogether(WarpgroupColumns(tiles));
  const int64_t blocks =
      std::min<int64_t>(WarpgroupTileCount(m, n, tiles), std::max(device.multiprocessors, 1) * together);
  return {.tiles = tiles, .blocks = static_cast<unsigned>(blocks)};
}

// What a block of a cluster has of the inner dimension at least. On an H200 rows of 1,536 bytes took 0.2 to 0.4 us less
// in two parts than in one with 12 and 24 tiles and 0.1 to 0.2 more with 48, rows of 3,072 in four parts half as long
// (12 tiles), of 768 in two longer.
constexpr int64_t kFewestSplitBytes = 768;

WarpgroupPlan PlanFinest(int64_t m, int64_t n, int64_t row_bytes, const device::DeviceInfo& device, int ring_parts,
                         int most_splits) {
  WarpgroupPlan plan = PlanWarpgroups(m, n, WarpgroupTiles::kFinest, device);
  plan.ring_parts = ring_parts;
  if (device.simulated) return plan;  // no clusters
  const int64_t places = int64_t{device.multiprocessors} * ring_parts;
  // A cluster's blocks share a part of the device whose multiprocessors are no multiple of four: an H200 with 132 has
  // room for 30 clusters of four, and the others' blocks would wait for a whole tile (9.0 us instead of 6.7). Of other
  // devices this is an estimate.
  const auto fits = [&](int splits) {
    const int64_t room = splits < kMostWarpgroupSplits ? places : places * 10 / 11;
    return int64_t{plan.blocks} * splits <= room && row_bytes >= kFewestSplitBytes * splits;
  };
  while (plan.splits < most_splits && fits(plan.splits * 2)) plan.splits *= 2;
  plan.blocks *= static_cast<unsigned>(plan.splits);
  return plan;
}

// What keeping its columns saves a block is less than what a part of the device idle takes.
constexpr unsigned kMostOthers = 16;

WarpgroupPlan WithWholeRows(WarpgroupPlan plan, int64_t n) {
  const auto columns = static_cast<unsigned>(CeilDiv(n, WarpgroupColumns(plan.tiles)));
  const unsigned others = plan.blocks % columns;
  if (others * kMostOthers <= plan.blocks) plan.blocks -= others;
  return plan;
}

WarpgroupPlan PlanWarpgroups(int64_t m, int64_t n, const device::DeviceInfo& device) {
  const int64_t processors = std::max(device.multiprocessors, 1);
  const auto rounds = [&](WarpgroupTiles tiles) { return CeilDiv(WarpgroupTileCount(m, n, tiles), processors); };
  const WarpgroupTiles tiles = rounds(WarpgroupTiles::kSmall) == 1  ? WarpgroupTiles::kSmall
                               : rounds(WarpgroupTiles::kWide) <= 2 ? WarpgroupTiles::kWide
                                                                    : WarpgroupTiles::kTurns;
  return PlanWarpgroups(m, n, tiles, device);
}

}  // namespace cudaep::kernels
