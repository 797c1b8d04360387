// Which kernel a mixture of experts' product takes.
#include "device/device_info.h"
#include "kernels/moe/moe.h"
#include "kernels/moe/moe_grid.h"

namespace cudaep::kernels {
namespace {

constexpr int kNarrow = 64, kWide = 128;  // rows of a tile
// Of an expert, from which on wide tiles are faster (measured on an H200: 512 rows by 6%; 256 rows slower by as much).
// Packed weights never gain.
constexpr int64_t kWideEntries = 512;

// By type, size and device; addresses are seen at the launch.
bool FitsTensorCores(const MoeProduct& product, const device::DeviceInfo& device) {
  return kFloat16Types.Contains(product.type) && product.k % 8 == 0 && device.major >= 8;
}

}  // namespace

bool MoeIsFew(const MoeProduct& first, const MoeProduct& second, const device::DeviceInfo& device) {
  const bool tiles = first.bits == 0 && FitsTensorCores(first, device) && FitsTensorCores(second, device);
  return first.tokens <= kMoeFewTokens && !tiles;
}

int MoeTileRows(const MoeProduct& product, const device::DeviceInfo& device) {
  const bool wide =
      product.bits == 0 && FitsTensorCores(product, device) && product.entries() / product.experts >= kWideEntries;
  return wide ? kWide : kNarrow;
}

Status LaunchMoeProduct(const MoeProduct& product, const MoeProductPointers& at, int tile_rows, int64_t tiles,
                        const device::DeviceInfo& device, device::Stream stream) {
  if (tiles == 0 || product.n == 0) return Status::Ok();
  const MoeArguments p = MoeArgumentsOf(product, at);
  if (p.packs && FitsTensorCores(product, device)) {
    return LaunchMoeTensorProduct(p, product.type, tile_rows, tiles, stream);
  }
  return LaunchMoePlainProduct(p, product.type, tiles, stream);
}

}  // namespace cudaep::kernels
