#include <algorithm>

#include "core/checked_math.h"
#include "device/device_info.h"
#include "kernels/gemm/gelu_product.h"

namespace cudaep::kernels {
namespace {

// The share of the waves of tiles that must be filled for the kernel to beat the library's product with a kernel for
// GELU behind it, in several waves and in a single one. Measured on an H100 with 768 inner and 3072 columns, of 512 to
// 6304 rows (docs/benchmarks.md); the deeper a product, the smaller the part of GELU.
constexpr double kLeastOfRounds = 0.85, kLeastOfOneRound = 0.7;
constexpr int64_t kMostDepth = 2048;

int64_t ColumnsOf(GeluTiles tiles) { return tiles == GeluTiles::kSmall ? 128 : 192; }

int64_t TileCount(const GeluProduct& product, GeluTiles tiles) {
  return CeilDiv<int64_t>(product.m, kGeluTileRows) * CeilDiv(product.n, ColumnsOf(tiles));
}

}  // namespace

bool TakesGeluProduct(const GeluProduct& product, const device::DeviceInfo& device) {
  const auto fits = [](int64_t size) { return size > 0 && size % kGeluProductPack == 0 && size <= INT32_MAX / 2; };
  const bool is_16_bits = product.type == DataType::kFloat16 || product.type == DataType::kBFloat16;
  return is_16_bits && product.m > 0 && product.m <= INT32_MAX / 2 && fits(product.n) && fits(product.k) &&
         TileCount(product, GeluTiles::kSmall) <= INT32_MAX / 2 && (device.simulated || device.major == 9) &&
         device.shared_bytes_per_block >= kGeluSharedBytes;
}

GeluProductPlan PlanGeluTiles(const GeluProduct& product, GeluTiles tiles, const device::DeviceInfo& device) {
  const int64_t blocks = std::min<int64_t>(TileCount(product, tiles), std::max(device.multiprocessors, 1));
  return {.tiles = tiles, .blocks = static_cast<unsigned>(blocks)};
}

std::optional<GeluProductPlan> PlanGeluProduct(const GeluProduct& product, const device::DeviceInfo& device) {
  if (!TakesGeluProduct(product, device) || product.k > kMostDepth) return std::nullopt;
  const int64_t processors = std::max(device.multiprocessors, 1);
  const auto rounds = [&](GeluTiles tiles) { return CeilDiv(TileCount(product, tiles), processors); };
  const GeluTiles tiles = rounds(GeluTiles::kSmall) == 1  ? GeluTiles::kSmall
                          : rounds(GeluTiles::kWide) <= 2 ? GeluTiles::kWide
                                                          : GeluTiles::kTurns;
  const double done = static_cast<double>(product.m) * static_cast<double>(product.n) /
                      static_cast<double>(rounds(tiles) * processors * kGeluTileRows * ColumnsOf(tiles));
  if (done < (rounds(tiles) == 1 ? kLeastOfOneRound : kLeastOfRounds)) return std::nullopt;
  return PlanGeluTiles(product, tiles, device);
}

}  // namespace cudaep::kernels
