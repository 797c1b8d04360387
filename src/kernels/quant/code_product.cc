#include "kernels/quant/code_product.h"

#include "device/device_info.h"

namespace cudaep::kernels {

std::optional<WarpgroupPlan> PlanCodeProduct(int64_t m, int64_t part_n, int64_t parts,
                                             const device::DeviceInfo& device) {
  const int64_t n = part_n * parts;
  const auto within = [&](WarpgroupTiles tiles) { return parts == 1 || part_n % WarpgroupColumns(tiles) == 0; };
  const int64_t small = WarpgroupTileCount(m, n, WarpgroupTiles::kSmall);
  const WarpgroupTiles tiles = 2 * small <= device.multiprocessors ? WarpgroupTiles::kFine
                               : small <= device.multiprocessors   ? WarpgroupTiles::kSmall
                                                                   : WarpgroupTiles::kWide;
  const WarpgroupPlan best = PlanWarpgroups(m, n, tiles, device);
  if (within(best.tiles)) return best;
  for (const WarpgroupTiles tiles : {WarpgroupTiles::kSmall, WarpgroupTiles::kFine}) {
    if (within(tiles)) return PlanWarpgroups(m, n, tiles, device);
  }
  return std::nullopt;
}

bool TakesCodeProduct(int64_t m, int64_t n, int64_t k, const device::DeviceInfo& device) {
  return n % kCodeProductPack == 0 && k % kCodeProductPack == 0 && TakesWarpgroups(m, n, k, device);
}

}  // namespace cudaep::kernels
