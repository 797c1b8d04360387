#include "kernels/quant/code_product.h"

#include "device/device_info.h"

namespace cudaep::kernels {

WarpgroupPlan PlanCodeProduct(int64_t m, int64_t n, const device::DeviceInfo& device) {
  if (2 * WarpgroupTileCount(m, n, WarpgroupTiles::kSmall) <= device.multiprocessors) {
    return PlanWarpgroups(m, n, WarpgroupTiles::kFine, device);
  }
  return PlanWarpgroups(m, n, device);
}

bool TakesCodeProduct(int64_t m, int64_t n, int64_t k, const device::DeviceInfo& device) {
  return n % kCodeProductPack == 0 && k % kCodeProductPack == 0 && TakesWarpgroups(m, n, k, device);
}

}  // namespace cudaep::kernels
