#include <algorithm>

#include "core/checked_math.h"
#include "device/tensor_map.h"
#include "kernels/gemm/few_rows.h"
#include "kernels/gemm/gated_product.h"
#include "kernels/gemm/many_rows.h"

namespace cudaep::kernels {
namespace {

// The share of the rounds of tiles that must be filled for the kernel to beat the library, in several rounds and in a
// single one, and how deep products may be: the deeper, the smaller the part of what ends them. Measured on an H200
// with 512 to 8192 rows (docs/benchmarks.md); with GELU against the library's time there and 4.5 us or more for a
// kernel behind it.
constexpr double kLeastOfRounds = 0.85, kLeastOfRoundsWithGelu = 0.74, kLeastOfOneRoundWithGelu = 0.7;
constexpr int64_t kMostDepth = 1024, kMostDepthWithGelu = 2048;
// A single round without GELU: of BERT's 1024 x 2304 x 768 as a part of the model (0.87 of it, docs/benchmarks.md).
constexpr double kLeastOfOneRound = 0.85;
constexpr int64_t kLeastDepthOfOneRound = 512;

// Of tiles of 64 rows: steps of 64 inner elements that a block multiplies at most, where a tile's inner dimension is
// whole, the same of 64 x 128, and where it is cut. Measured on an H200 with 32 to 1,024 rows, 384 to 8,192 columns and
// inner elements, and with ResNet-50's pointwise convolutions at batch 1 (docs/benchmarks.md).
constexpr int64_t kMostSteps = 24, kMostFlatSteps = 16, kMostSplitSteps = 32;

// Weights from so many on are what a product of one tile's rows takes: they are read once, by as many blocks as make
// half of the multiprocessors busy at least. Each has half of a multiprocessor's memory, so that two may share one, and
// blocks that wait for attention leave room to it. Measured on an H200 with a decoder's step of 32 to 64 entries
// (docs/benchmarks.md).
constexpr int64_t kLeastStreamed = 1 << 22;

// Of pointwise convolutions: rounds of tiles at least, and inner elements at most, with a residual, without one, and
// without one of few columns. Measured on an H200 with ResNet-50's convolutions at batch 32 and 128
// (docs/benchmarks.md).
constexpr int64_t kLeastRoundsOfPointwise = 4, kFewColumns = 128;
constexpr int64_t kMostDepthWithResidual = 64, kMostDepthOfPointwise = 128, kMostDepthOfFewColumns = 512;

// A tile for each multiprocessor at most, and few steps: what is left is waiting, of which these have least. Or large
// weights.
std::optional<WarpgroupPlan> PlanFlat(const ManyRowsProduct& product, const device::DeviceInfo& device,
                                      int most_splits = kMostWarpgroupSplits) {
  const bool gelu = product.activation == Activation::kGeluErf;
  const bool ends = IsNoneOrRelu(product.activation) || (gelu && !product.residual);
  if (!ends || !product.constant_b || product.m <= kFewRows) return std::nullopt;
  const int processors = std::max(device.multiprocessors, 1);
  const auto finest = [&](int ring_parts) {
    return PlanFinest(product.m, product.n, product.k * 2, device, ring_parts, most_splits);
  };
  if (product.m <= WarpgroupRows(WarpgroupTiles::kFinest) && product.n * product.k >= kLeastStreamed) {
    const WarpgroupPlan plan = finest(2);
    if (int64_t{plan.blocks} * 2 >= processors) return plan;
  }
  const int64_t steps = CeilDiv(product.k, int64_t{device::kBoxColumns});
  const auto fits = [&](WarpgroupTiles tiles) { return WarpgroupTileCount(product.m, product.n, tiles) <= processors; };
  if (fits(WarpgroupTiles::kFinest)) {
    const WarpgroupPlan plan = finest(1);
    if (steps <= (plan.splits == 1 ? kMostSteps : kMostSplitSteps * plan.splits)) return plan;
  } else if (fits(WarpgroupTiles::kFlat) && steps <= kMostFlatSteps) {
    return PlanWarpgroups(product.m, product.n, WarpgroupTiles::kFlat, device);
  }
  return std::nullopt;
}

std::optional<WarpgroupPlan> PlanTiles(const ManyRowsProduct& product, const device::DeviceInfo& device,
                                       int most_splits) {
  if (!TakesManyRows(product, device)) return std::nullopt;
  if (auto plan = PlanFlat(product, device, most_splits)) return plan;
  const bool gelu = product.activation == Activation::kGeluErf;
  const bool finishes = (gelu || product.activation == Activation::kNone) && !product.residual;
  const int64_t most_depth = gelu ? kMostDepthWithGelu : kMostDepth;
  if (!finishes || product.k > most_depth) return std::nullopt;
  const int64_t processors = std::max(device.multiprocessors, 1);
  const auto rounds_of = [&](WarpgroupTiles tiles) {
    return CeilDiv(WarpgroupTileCount(product.m, product.n, tiles), processors);
  };
  constexpr auto kBroad = WarpgroupTiles::kBroad, kTurns = WarpgroupTiles::kTurns;
  const WarpgroupPlan plan =
      gelu ? PlanWarpgroups(product.m, product.n, device)
           : PlanWarpgroups(product.m, product.n, rounds_of(kBroad) == 1 ? kBroad : kTurns, device);
  const int64_t rounds = rounds_of(plan.tiles);
  const bool one_round = rounds == 1;
  if (one_round && !gelu && (plan.tiles == kTurns || product.k < kLeastDepthOfOneRound)) return std::nullopt;
  const double done =
      static_cast<double>(product.m) * static_cast<double>(product.n) /
      static_cast<double>(rounds * processors * WarpgroupRows(plan.tiles) * WarpgroupColumns(plan.tiles));
  const double least = one_round ? (gelu ? kLeastOfOneRoundWithGelu : kLeastOfOneRound)
                                 : (gelu ? kLeastOfRoundsWithGelu : kLeastOfRounds);
  if (done < least) return std::nullopt;
  return plan;
}

}  // namespace

bool TakesManyRows(const ManyRowsProduct& product, const device::DeviceInfo& device) {
  const bool is_16_bits = product.type == DataType::kFloat16 || product.type == DataType::kBFloat16;
  return is_16_bits && product.n % kManyRowsColumns == 0 && product.k % kManyRowsPack == 0 &&
         TakesWarpgroups(product.m, product.n, product.k, device);
}

std::optional<WarpgroupPlan> PlanManyRows(const ManyRowsProduct& product, const device::DeviceInfo& device) {
  return PlanTiles(product, device, kMostWarpgroupSplits);
}

std::optional<WarpgroupPlan> PlanGatedRows(const GatedProduct& product, const device::DeviceInfo& device) {
  if (product.n % kManyRowsColumns != 0 || !EndsTiles(product.activation)) return std::nullopt;
  // Like a product with GELU: a library's has a kernel behind it too.
  return PlanTiles({.type = product.type,
                    .m = product.m,
                    .n = 2 * product.n,
                    .k = product.k,
                    .bias = product.bias,
                    .activation = Activation::kGeluErf,
                    .constant_b = product.constant_b},
                   device, 1);
}

std::optional<WarpgroupPlan> PlanPointwise(const ManyRowsProduct& product, const device::DeviceInfo& device) {
  constexpr WarpgroupTiles kTiles = WarpgroupTiles::kSmall;
  if (!TakesManyRows(product, device)) return std::nullopt;
  if (auto plan = PlanFlat(product, device)) return plan;
  if (!IsNoneOrRelu(product.activation) || product.n % WarpgroupColumns(kTiles) != 0) return std::nullopt;
  const int64_t most_depth = product.residual           ? kMostDepthWithResidual
                             : product.n == kFewColumns ? kMostDepthOfFewColumns
                                                        : kMostDepthOfPointwise;
  const WarpgroupPlan plan = WithWholeRows(PlanWarpgroups(product.m, product.n, kTiles, device), product.n);
  const int64_t tiles = WarpgroupTileCount(product.m, product.n, kTiles);
  if (product.k > most_depth || tiles < kLeastRoundsOfPointwise * int64_t{plan.blocks}) return std::nullopt;
  return plan;
}

}  // namespace cudaep::kernels
