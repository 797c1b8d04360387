#include "kernels/quant/code_product.h"

#include "device/device_info.h"

namespace cudaep::kernels {

namespace {

// What a block of a cluster has of the inner dimension at least: 768 bytes in two parts took longer on an H200 than in
// one (3.5 us, 3.2), 3,072 in four a third less (4.3, 6.5).
constexpr int64_t kFewestSplitBytes = 768;

WarpgroupPlan PlanFinest(int64_t m, int64_t n, int64_t k, const device::DeviceInfo& device) {
  WarpgroupPlan plan = PlanWarpgroups(m, n, WarpgroupTiles::kFinest, device);
  if (device.simulated) return plan;  // no clusters
  const auto tiles = static_cast<int>(plan.blocks);
  while (plan.splits < kMostWarpgroupSplits && tiles * plan.splits * 2 <= device.multiprocessors &&
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
  // Whether `times` as many tiles are at most one for each multiprocessor.
  const auto fits = [&](WarpgroupTiles tiles, int64_t times) {
    return times * WarpgroupTileCount(m, n, tiles) <= device.multiprocessors;
  };
  if (fits(WarpgroupTiles::kFinest, 1) && within(WarpgroupTiles::kFinest)) return PlanFinest(m, n, k, device);
  const WarpgroupTiles best = fits(WarpgroupTiles::kSmall, 2)   ? WarpgroupTiles::kFine
                              : fits(WarpgroupTiles::kSmall, 1) ? WarpgroupTiles::kSmall
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
