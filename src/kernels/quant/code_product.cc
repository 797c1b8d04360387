#include "kernels/quant/code_product.h"

#include "device/device_info.h"

namespace cudaep::kernels {

namespace {

// A block of a cluster has as many bytes of the inner dimension at least.
constexpr int64_t kFewestSplitBytes = 768;
constexpr int kMostSplits = 4;

// Of finest tiles that leave multiprocessors idle.
WarpgroupPlan PlanFinest(int64_t m, int64_t n, int64_t k, const device::DeviceInfo& device) {
  WarpgroupPlan plan = PlanWarpgroups(m, n, WarpgroupTiles::kFinest, device);
  if (device.simulated) return plan;  // no clusters
  const auto tiles = static_cast<int>(plan.blocks);
  while (plan.splits < kMostSplits && tiles * plan.splits * 2 <= device.multiprocessors &&
         k >= kFewestSplitBytes * plan.splits * 2) {
    plan.splits *= 2;
  }
  plan.blocks *= static_cast<unsigned>(plan.splits);
  return plan;
}

}  // namespace

std::optional<WarpgroupPlan> PlanCodeProduct(int64_t m, int64_t part_n, int64_t parts, int64_t k,
                                             const device::DeviceInfo& device) {
  const int64_t n = part_n * parts;
  const auto within = [&](WarpgroupTiles tiles) { return parts == 1 || part_n % WarpgroupColumns(tiles) == 0; };
  const auto idle = [&](WarpgroupTiles tiles, int64_t times) {
    return times * WarpgroupTileCount(m, n, tiles) <= device.multiprocessors;
  };
  if (idle(WarpgroupTiles::kFinest, 1) && within(WarpgroupTiles::kFinest)) return PlanFinest(m, n, k, device);
  const WarpgroupTiles best = idle(WarpgroupTiles::kSmall, 2)   ? WarpgroupTiles::kFine
                              : idle(WarpgroupTiles::kSmall, 1) ? WarpgroupTiles::kSmall
                                                                : WarpgroupTiles::kWide;
  for (const WarpgroupTiles tiles : {best, WarpgroupTiles::kSmall, WarpgroupTiles::kFine}) {
    if (within(tiles)) return PlanWarpgroups(m, n, tiles, device);
  }
  return std::nullopt;
}

bool TakesCodeProduct(int64_t m, int64_t n, int64_t k, const device::DeviceInfo& device) {
  return n % kCodeProductPack == 0 && k % kCodeProductPack == 0 && TakesWarpgroups(m, n, k, device);
}

}  // namespace cudaep::kernels
