#include <algorithm>

#include "core/checked_math.h"
#include "kernels/gemm/gelu_product.h"

namespace cudaep::kernels {
namespace {

// The share of the waves of tiles that must be filled for the kernel to beat the library's product with a kernel for
// GELU behind it, in several waves and in a single one. Measured on an H100 with 768 inner and 3072 columns, of 512 to
// 6304 rows (docs/benchmarks.md); the deeper a product, the smaller the part of GELU.
constexpr double kLeastOfRounds = 0.85, kLeastOfOneRound = 0.7;
constexpr int64_t kMostDepth = 2048;

}  // namespace

bool TakesGeluProduct(const GeluProduct& product, const device::DeviceInfo& device) {
  const bool is_16_bits = product.type == DataType::kFloat16 || product.type == DataType::kBFloat16;
  return is_16_bits && product.n % kGeluProductPack == 0 && product.k % kGeluProductPack == 0 &&
         TakesWarpgroups(product.m, product.n, product.k, device);
}

std::optional<WarpgroupPlan> PlanGeluProduct(const GeluProduct& product, const device::DeviceInfo& device) {
  if (!TakesGeluProduct(product, device) || product.k > kMostDepth) return std::nullopt;
  const WarpgroupPlan plan = PlanWarpgroups(product.m, product.n, device);
  const int64_t processors = std::max(device.multiprocessors, 1);
  const int64_t rounds = CeilDiv(WarpgroupTileCount(product.m, product.n, plan.tiles), processors);
  const double done =
      static_cast<double>(product.m) * static_cast<double>(product.n) /
      static_cast<double>(rounds * processors * WarpgroupRows(plan.tiles) * WarpgroupColumns(plan.tiles));
  if (done < (rounds == 1 ? kLeastOfOneRound : kLeastOfRounds)) return std::nullopt;
  return plan;
}

}  // namespace cudaep::kernels
