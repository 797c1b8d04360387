#include "kernels/quant/code_product.h"

#include "device/device_info.h"

namespace cudaep::kernels {

std::optional<WarpgroupPlan> PlanCodeProduct(int64_t m, int64_t part_n, int64_t parts, int64_t k,
                                             const device::DeviceInfo& device) {
  const int64_t n = part_n * parts;
  const auto within = [&](WarpgroupTiles tiles) { return parts == 1 || part_n % WarpgroupColumns(tiles) == 0; };
  // Whether `times` as many tiles are at most one for each multiprocessor.
  const auto fits = [&](WarpgroupTiles tiles, int64_t times) {
    return times * WarpgroupTileCount(m, n, tiles) <= device.multiprocessors;
  };
  if (fits(WarpgroupTiles::kFinest, 1) && within(WarpgroupTiles::kFinest)) return PlanFinest(m, n, k, device);
  const WarpgroupTiles best = fits(WarpgroupTiles::kSmall, 2)                                 ? WarpgroupTiles::kFine
                              : fits(WarpgroupTiles::kSmall, 1) || n % kWarpgroupSegment != 0 ? WarpgroupTiles::kSmall
                                                                                              : WarpgroupTiles::kWide;
  for (const WarpgroupTiles tiles : {best, WarpgroupTiles::kSmall, WarpgroupTiles::kFine}) {
    if (within(tiles)) return PlanWarpgroups(m, n, tiles, device);
  }
  return std::nullopt;
}

bool TakesCodeProduct(int64_t m, int64_t n, int64_t k, const device::DeviceInfo& device) {
  return n % kCodeProductColumns == 0 && k % kCodeProductPack == 0 && TakesWarpgroups(m, n, k, device);
}

}  // namespace cudaep::kernels
