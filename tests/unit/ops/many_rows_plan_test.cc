// Which products of many rows the kernel of warpgroups takes, and how they are cut into tiles.
#include <gtest/gtest.h>

#include "device/device_info.h"
#include "kernels/gemm/many_rows.h"

namespace cudaep::ops {
namespace {

using kernels::ManyRowsProduct;
using kernels::WarpgroupTiles;

device::DeviceInfo Hopper() {
  device::DeviceInfo device;
  device.major = 9;
  device.multiprocessors = 132;
  device.shared_bytes_per_block = size_t{227} << 10;
  return device;
}

TEST(ManyRowsPlanTest, PointwiseConvolutionsThatMemoryBounds) {
  // Blocks, or 0 where they are the library's.
  const auto blocks = [](int64_t m, int64_t n, int64_t k, bool residual = false,
                         Activation activation = Activation::kRelu) {
    const auto plan = kernels::PlanPointwise(
        {.m = m, .n = n, .k = k, .residual = residual, .activation = activation, .constant_b = true}, Hopper());
    EXPECT_TRUE(!plan || m < 4096 || plan->tiles == WarpgroupTiles::kSmall);
    return plan ? plan->blocks : 0;
  };
  // ResNet-50's at batches of 128, 32 and 1.
  EXPECT_EQ(blocks(401408, 256, 64, true), 132u);
  EXPECT_EQ(blocks(401408, 256, 64, false, Activation::kNone), 132u);
  EXPECT_EQ(blocks(401408, 128, 256), 132u);
  EXPECT_EQ(blocks(100352, 128, 512), 132u);
  EXPECT_EQ(blocks(100352, 512, 128), 132u);
  EXPECT_EQ(blocks(100352, 512, 128, true), 0u);
  EXPECT_EQ(blocks(401408, 64, 256), 0u);
  EXPECT_EQ(blocks(25088, 1024, 256, true), 0u);
  EXPECT_EQ(blocks(100352, 256, 64, true), 132u);
  EXPECT_EQ(blocks(25088, 128, 512), 0u);       // fewer than four rounds
  EXPECT_EQ(blocks(3136, 256, 64, true), 98u);  // tiles of 64 x 128
  EXPECT_EQ(blocks(4 * 132 * 64, 256, 64), 132u);
  EXPECT_EQ(blocks(4 * 132 * 64 - 128, 256, 64), 0u);
  // Whole rows of tiles, unless many multiprocessors were idle.
  EXPECT_EQ(blocks(401408, 640, 64), 130u);
  EXPECT_EQ(blocks(401408, 8576, 64), 132u);
  for (const Activation other : {Activation::kGeluErf, Activation::kSilu, Activation::kClip}) {
    EXPECT_EQ(blocks(401408, 256, 64, false, other), 0u);
  }
}

TEST(ManyRowsPlanTest, OthersThatNoKernelEnds) {
  ManyRowsProduct p{.m = 4096, .n = 3072, .k = 768};
  EXPECT_TRUE(kernels::PlanManyRows(p, Hopper()).has_value());
  p.residual = true;
  EXPECT_FALSE(kernels::PlanManyRows(p, Hopper()).has_value());
  p.residual = false, p.activation = Activation::kRelu;
  EXPECT_FALSE(kernels::PlanManyRows(p, Hopper()).has_value());
}

// Tiles of 64 rows: one for each multiprocessor at most, and few steps for a block.
TEST(ManyRowsPlanTest, FewTilesAreFlat) {
  struct Plan {
    WarpgroupTiles tiles;
    unsigned blocks;
    int splits;
    bool operator==(const Plan&) const = default;
  };
  const auto plan_of = [](int64_t m, int64_t n, int64_t k) -> std::optional<Plan> {
    const auto plan = kernels::PlanManyRows(
        {.m = m, .n = n, .k = k, .residual = true, .activation = Activation::kRelu, .constant_b = true}, Hopper());
    if (!plan) return std::nullopt;
    return Plan{plan->tiles, plan->blocks, plan->splits};
  };
  constexpr auto kFinest = WarpgroupTiles::kFinest, kFlat = WarpgroupTiles::kFlat;
  EXPECT_EQ(plan_of(128, 768, 768), (Plan{kFinest, 48, 2}));
  EXPECT_EQ(plan_of(128, 768, 384), (Plan{kFinest, 24, 1}));  // too little to be cut
  EXPECT_EQ(plan_of(128, 2304, 768), (Plan{kFinest, 72, 1}));
  EXPECT_EQ(plan_of(128, 768, 3072), (Plan{kFinest, 96, 4}));
  EXPECT_EQ(plan_of(256, 768, 3072), (Plan{kFinest, 96, 2}));
  EXPECT_EQ(plan_of(128, 1024, 4096), (Plan{kFinest, 64, 2}));  // clusters of four would not all have room
  EXPECT_EQ(plan_of(256, 2304, 768), (Plan{kFlat, 72, 1}));
  EXPECT_EQ(plan_of(1024, 768, 768), (Plan{kFlat, 96, 1}));
  EXPECT_EQ(plan_of(1024, 1024, 1024), (Plan{kFlat, 128, 1}));
  // Too deep for what a block has of it, and too many tiles.
  EXPECT_EQ(plan_of(512, 768, 3072), std::nullopt);
  EXPECT_EQ(plan_of(128, 768, 16384), std::nullopt);
  EXPECT_EQ(plan_of(1024, 1024, 1088), std::nullopt);
  EXPECT_EQ(plan_of(1025, 1024, 1024), std::nullopt);
  // One tile of few rows, and a B that may be written while its boxes were on their way.
  EXPECT_EQ(plan_of(17, 64, 64), (Plan{kFinest, 1, 1}));
  EXPECT_EQ(plan_of(16, 64, 64), std::nullopt);
  EXPECT_FALSE(kernels::PlanManyRows({.m = 128, .n = 768, .k = 768}, Hopper()).has_value());
  for (const Activation other : {Activation::kSilu, Activation::kClip, Activation::kGeluErf}) {
    EXPECT_FALSE(kernels::PlanManyRows(
        {.m = 128, .n = 768, .k = 768, .residual = true, .activation = other, .constant_b = true}, Hopper()));
  }
  device::DeviceInfo simulated = Hopper();
  simulated.simulated = true;
  EXPECT_EQ(kernels::PlanManyRows({.m = 128, .n = 768, .k = 768, .constant_b = true}, simulated)->splits, 1);
}

// Large weights of few rows are streamed, by blocks with half of a ring.
TEST(ManyRowsPlanTest, LargeWeightsOfFewRowsAreStreamed) {
  struct Plan {
    unsigned blocks;
    int splits, ring_parts;
    bool operator==(const Plan&) const = default;
  };
  const auto plan_of = [](int64_t m, int64_t n, int64_t k) -> std::optional<Plan> {
    const auto plan = kernels::PlanManyRows({.m = m, .n = n, .k = k, .constant_b = true}, Hopper());
    if (!plan || plan->tiles != WarpgroupTiles::kFinest) return std::nullopt;
    return Plan{plan->blocks, plan->splits, plan->ring_parts};
  };
  EXPECT_EQ(plan_of(32, 16384, 2048), (Plan{256, 1, 2}));
  EXPECT_EQ(plan_of(64, 32000, 2048), (Plan{264, 1, 2}));  // go round the tiles
  EXPECT_EQ(plan_of(32, 3072, 2048), (Plan{192, 4, 2}));
  EXPECT_EQ(plan_of(32, 4096, 1024), (Plan{128, 2, 2}));  // a part has 768 bytes at least
  EXPECT_EQ(plan_of(32, 2048, 8192), (Plan{128, 4, 2}));
  EXPECT_EQ(plan_of(32, 4096, 14336), (Plan{128, 2, 2}));  // 64 clusters of four would not all have room
  EXPECT_EQ(plan_of(32, 6144, 4096), (Plan{192, 2, 2}));
  EXPECT_EQ(plan_of(17, 2048, 2048), (Plan{128, 4, 2}));
  EXPECT_EQ(plan_of(64, 2048, 2040), (Plan{64, 2, 1}));  // not so large
  EXPECT_EQ(plan_of(65, 2048, 8192), std::nullopt);
  EXPECT_EQ(plan_of(32, 64, 65536), std::nullopt);  // too few blocks to read them
}

// As measured, with 3072 columns.
TEST(ManyRowsPlanTest, TilesAreThoseThatFillTheDevice) {
  const auto tiles = [](int64_t m, int64_t n = 3072, int64_t k = 768, bool gelu = true) {
    const auto plan = kernels::PlanManyRows(
        {.m = m, .n = n, .k = k, .activation = gelu ? Activation::kGeluErf : Activation::kNone, .constant_b = true},
        Hopper());
    return plan ? static_cast<int>(plan->tiles) : -1;
  };
  EXPECT_EQ(tiles(512), static_cast<int>(WarpgroupTiles::kSmall));
  EXPECT_EQ(tiles(1024), static_cast<int>(WarpgroupTiles::kWide));
  EXPECT_EQ(tiles(2048), static_cast<int>(WarpgroupTiles::kWide));
  EXPECT_EQ(tiles(4096), static_cast<int>(WarpgroupTiles::kTurns));
  EXPECT_EQ(tiles(6304), static_cast<int>(WarpgroupTiles::kTurns));
  EXPECT_EQ(tiles(1576), static_cast<int>(WarpgroupTiles::kWide));
  EXPECT_EQ(tiles(300), static_cast<int>(WarpgroupTiles::kFlat));
  EXPECT_EQ(tiles(400), -1);
  EXPECT_EQ(tiles(4096, 4096, 4096), -1);
  EXPECT_EQ(
      kernels::PlanManyRows({.m = 4096, .n = 3072, .k = 768, .activation = Activation::kGeluErf}, Hopper())->blocks,
      132u);
  EXPECT_EQ(
      kernels::PlanManyRows({.m = 1024, .n = 3072, .k = 768, .activation = Activation::kGeluErf}, Hopper())->blocks,
      128u);
  for (const auto& [m, n] : {std::pair{4096, 2304}, {4096, 3072}, {6304, 2304}, {6304, 3072}, {2048, 3072}}) {
    EXPECT_EQ(tiles(m, n, 768, false), static_cast<int>(WarpgroupTiles::kTurns)) << m << ' ' << n;
  }
  EXPECT_EQ(tiles(8192, 4096, 1024, false), static_cast<int>(WarpgroupTiles::kTurns));
  for (const auto& [m, n] : {std::pair{1576, 3072}, {1576, 2304}, {1024, 3072}, {512, 3072}, {6304, 768}}) {
    EXPECT_EQ(tiles(m, n, 768, false), -1) << m << ' ' << n;
  }
  EXPECT_EQ(tiles(4096, 768, 3072, false), -1);
  // One round of tiles, nearly whole.
  for (const auto& [m, n] : {std::pair{1024, 2304}, {1024, 2560}, {2048, 1280}, {1000, 2304}}) {
    EXPECT_EQ(tiles(m, n, 768, false), static_cast<int>(WarpgroupTiles::kBroad)) << m << ' ' << n;
  }
  for (const auto& [m, n] : {std::pair{1024, 2592}, {1024, 1920}, {700, 3072}}) {
    EXPECT_EQ(tiles(m, n, 768, false), -1) << m << ' ' << n;
  }
  EXPECT_EQ(tiles(1024, 2304, 1024, false), static_cast<int>(WarpgroupTiles::kBroad));
  EXPECT_EQ(tiles(1024, 2304, 1032, false), -1);
  EXPECT_EQ(tiles(1024, 2304, 512, false), static_cast<int>(WarpgroupTiles::kBroad));
  EXPECT_EQ(tiles(1024, 2304, 504, false), -1);
}

TEST(ManyRowsPlanTest, WhatTheKernelDoesNotTake) {
  const ManyRowsProduct taken{.m = 4096, .n = 3072, .k = 768};
  EXPECT_TRUE(kernels::TakesManyRows(taken, Hopper()));
  for (const auto& other :
       {ManyRowsProduct{.type = DataType::kFloat, .m = 4096, .n = 3072, .k = 768},
        ManyRowsProduct{.m = 4096, .n = 3080, .k = 768}, ManyRowsProduct{.m = 4096, .n = 3072, .k = 772},
        ManyRowsProduct{.m = 0, .n = 3072, .k = 768}, ManyRowsProduct{.m = 4096, .n = 3072, .k = 0},
        ManyRowsProduct{.m = int64_t{1} << 31, .n = 3072, .k = 768}}) {
    EXPECT_FALSE(kernels::TakesManyRows(other, Hopper())) << other.m << ' ' << other.n << ' ' << other.k;
  }
  for (const int major : {8, 10, 12}) {
    device::DeviceInfo device = Hopper();
    device.major = major;
    EXPECT_FALSE(kernels::TakesManyRows(taken, device)) << major;
  }
}

}  // namespace
}  // namespace cudaep::ops
