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
