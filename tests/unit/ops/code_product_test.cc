// Products of codes that end in codes, by the kernel of warpgroups: every tiling on every kind of size, with each form
// of what follows the sums, exactly.
#include "kernels/quant/code_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "context_fixture.h"

namespace cudaep::ops {
namespace {

using kernels::WarpgroupTiles;

constexpr WarpgroupTiles kAllTiles[] = {WarpgroupTiles::kFinest, WarpgroupTiles::kFine, WarpgroupTiles::kSmall,
                                        WarpgroupTiles::kWide};

std::vector<int> Codes(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<int> codes(static_cast<size_t>(count));
  for (int& code : codes) code = static_cast<int>(generator() % 256) - 128;
  return codes;
}

class CodeProductTest : public ContextTest {
 protected:
  const char* Lacks(const device::DeviceInfo& device) const override {
    return kernels::TakesCodeProduct(1, 16, 16, device) ? nullptr : "no device of 9.0";
  }

  void* UploadBytes(const void* from, size_t bytes) {
    void* const to = Allocate(bytes);
    Check(device::MemcpyAsync(to, from, bytes, stream()));
    return to;
  }
  const void* Bytes(const std::vector<int>& values) {
    std::vector<uint8_t> bytes;
    for (const int value : values) bytes.push_back(static_cast<uint8_t>(value));
    return UploadBytes(bytes.data(), bytes.size());
  }
  const float* Floats(const std::vector<float>& values) {
    return static_cast<const float*>(UploadBytes(values.data(), values.size() * sizeof(float)));
  }

  void CheckSizes(WarpgroupTiles tiles, int64_t m, int64_t n, int64_t k, bool first, bool has_table, unsigned blocks,
                  int splits = 1) {
    SCOPED_TRACE(::testing::Message() << "tiles " << static_cast<int>(tiles) << " [" << m << ',' << n << ',' << k
                                      << "] first " << first << " table " << has_table << ", " << blocks << " blocks, "
                                      << splits << " splits");
    const std::vector<int> a = Codes(m * k, 1), b = Codes(n * k, 2), table = Codes(256, 3);
    std::vector<float> scale, shift, bias;
    for (int64_t i = 0; i < n; ++i) {
      scale.push_back(i % 2 == 0 ? 0x1p-8f : 0x1p-9f);
      shift.push_back(static_cast<float>(i * 37 % 1000));
      bias.push_back(static_cast<float>(i % 50) * 0.5f - 12);
    }
    const float first_scale = 0.5f, y_scale = 2;
    const int first_zero = 9, y_zero = 20;  // uint8, y int8 where it is twice rounded and no index
    const int y_lowest = first && !has_table ? -128 : 0;
    kernels::CodeFinish finish;
    finish.scale = Floats(scale), finish.shift = Floats(shift), finish.bias = Floats(bias);
    finish.table = has_table ? static_cast<const uint8_t*>(Bytes(table)) : nullptr;
    finish.part[0] = {.first = {.inverse = 1 / first_scale, .least = -first_zero, .most = 255 - first_zero},
                      .last = {.inverse = 1 / y_scale,
                               .least = static_cast<float>(y_lowest - y_zero),
                               .most = static_cast<float>(y_lowest + 255 - y_zero)},
                      .ratio = first_scale / y_scale,
                      .zero = y_zero};
    finish.has_first = first ? 1 : 0;
    finish.m = static_cast<int32_t>(m), finish.n = finish.part_n = static_cast<int32_t>(n);
    constexpr size_t kBeyond = 4096;  // bytes behind the result that must stay
    std::vector<uint8_t> result(static_cast<size_t>(m * n) + kBeyond, 0xa5);
    void* const c = finish.c[0] = UploadBytes(result.data(), result.size());
    Check(
        kernels::LaunchCodeProduct(finish, {tiles, blocks, splits}, Bytes(a), Bytes(b), first, k, context_->stream()));
    Check(device::MemcpyAsync(result.data(), c, result.size(), stream()));
    Check(device::StreamSynchronize(stream()));
    const auto code = [](float x, float by, int zero, int lowest = 0) {
      return std::clamp(static_cast<int>(std::nearbyint(x / by)) + zero, lowest, lowest + 255);
    };
    int wrong = 0;
    for (int64_t row = 0; row < m && wrong < 5; ++row) {
      for (int64_t column = 0; column < n && wrong < 5; ++column) {
        int sum = 0;
        for (int64_t i = 0; i < k; ++i)
          sum += a[static_cast<size_t>(row * k + i)] * b[static_cast<size_t>(column * k + i)];
        const auto at = static_cast<size_t>(column);
        float x = (static_cast<float>(sum) + shift[at]) * scale[at];
        if (first) x = static_cast<float>(code(x, first_scale, first_zero) - first_zero) * first_scale;
        const int index = code(x + bias[at], y_scale, y_zero, y_lowest);
        const auto wanted = static_cast<uint8_t>(has_table ? table[static_cast<size_t>(index)] : index);
        const uint8_t got = result[static_cast<size_t>(row * n + column)];
        if (got != wanted) {
          ++wrong;
          ADD_FAILURE() << "row " << row << ", column " << column << ": " << int{got} << " for " << int{wanted};
        }
      }
    }
    for (size_t i = result.size() - kBeyond; i < result.size(); ++i) ASSERT_EQ(result[i], 0xa5) << i;
  }
};

TEST_F(CodeProductTest, EveryTilingOnEverySize) {
  for (const WarpgroupTiles tiles : kAllTiles) {
    CheckSizes(tiles, 128, 192, 128, true, true, 1);   // whole tiles
    const bool wide = tiles == WarpgroupTiles::kWide;  // whole segments of 32 columns
    CheckSizes(tiles, 1, wide ? 32 : 16, 16, false, false, 1);
    CheckSizes(tiles, 129, wide ? 224 : 208, 144, true, false, 2);  // parts of tiles, and blocks with several
    CheckSizes(tiles, 300, wide ? 160 : 144, 400, false, true, 3);
    if (wide) continue;
    CheckSizes(tiles, 1, 8, 16, true, false, 1);  // rows of C that are aligned to no more than 8 bytes
    CheckSizes(tiles, 131, 200, 144, false, true, 2);
  }
  CheckSizes(WarpgroupTiles::kWide, 260, 32, 912, true, true, 2);  // more steps than a ring has
  // Columns of eight tiles after each other, of which two are there at once.
  for (const auto& [tiles, columns] : {std::pair{WarpgroupTiles::kFinest, 64},
                                       {WarpgroupTiles::kFine, 64},
                                       {WarpgroupTiles::kSmall, 128},
                                       {WarpgroupTiles::kWide, 192}}) {
    CheckSizes(tiles, 60, columns * 8, 48, true, true, 1);
  }
}

// Blocks of a cluster with equal parts of the inner dimension, and with a last one that is smaller.
TEST_F(CodeProductTest, TilesSharedByBlocks) {
  if (context_->device_info().simulated) GTEST_SKIP() << "no clusters";
  for (const bool has_table : {false, true}) {
    CheckSizes(WarpgroupTiles::kFinest, 64, 64, 256, true, has_table, 2, 2);
    CheckSizes(WarpgroupTiles::kFinest, 130, 208, 1152, true, has_table, 24, 2);  // 5 and 4 steps
    CheckSizes(WarpgroupTiles::kFinest, 128, 96, 3072, false, has_table, 16, 4);
    CheckSizes(WarpgroupTiles::kFinest, 65, 144, 1648, false, has_table, 24, 4);  // 4, 4, 4 and a part of one
    CheckSizes(WarpgroupTiles::kFinest, 33, 1000, 2048, true, has_table, 32, 2);  // a last tile of 40 columns
  }
}

TEST_F(CodeProductTest, BlocksWithoutWorkAreRefused) {
  kernels::CodeFinish finish;
  finish.m = 64, finish.n = finish.part_n = 128;
  const void* const codes = Allocate(size_t{128} * 256);
  const auto code = [&](const kernels::WarpgroupPlan& plan) {
    return kernels::LaunchCodeProduct(finish, plan, codes, codes, false, 256, context_->stream()).code();
  };
  for (const kernels::WarpgroupPlan& plan : std::vector<kernels::WarpgroupPlan>{
           {WarpgroupTiles::kFinest, 0, 1},  // none
           {WarpgroupTiles::kFinest, 3, 1},  // more than the two tiles
           {WarpgroupTiles::kFinest, 2, 2},  // half of them
           {WarpgroupTiles::kFinest, 2, 0},
           {WarpgroupTiles::kFinest, 6, 3},  // no power of two
           {WarpgroupTiles::kFinest, 8, 4},  // of which two have no step
           {WarpgroupTiles::kFinest, 16, 8},
           {WarpgroupTiles::kFine, 4, 2},  // tiles that nobody shares
       }) {
    EXPECT_EQ(code(plan), StatusCode::kInvalidArgument) << plan.blocks << ' ' << plan.splits;
  }
}

TEST(CodeProductPlanTest, WholePacks) {
  const device::DeviceInfo device{.major = 9, .shared_bytes_per_block = kernels::kWarpgroupSharedBytes};
  const auto takes = [&](int64_t n, int64_t k) { return kernels::TakesCodeProduct(32, n, k, device); };
  EXPECT_TRUE(takes(1000, 2048));
  EXPECT_TRUE(takes(8, 16));
  for (const int64_t n : {1001, 1002, 1004, 4}) EXPECT_FALSE(takes(n, 2048)) << n;
  for (const int64_t k : {2040, 2044, 8}) EXPECT_FALSE(takes(1000, k)) << k;  // rows of A and B
}

TEST(CodeProductPlanTest, FinerTilesWhereOthersLeaveMultiprocessorsIdle) {
  device::DeviceInfo device;
  device.major = 9;
  device.multiprocessors = 132;
  const auto tiles = [&](int64_t m, int64_t n, int64_t parts = 1) {
    return kernels::PlanCodeProduct(m, n, parts, 768, device)->tiles;
  };
  EXPECT_EQ(tiles(128, 768), WarpgroupTiles::kFinest);
  EXPECT_EQ(tiles(128, 768, 3), WarpgroupTiles::kFinest);
  EXPECT_EQ(tiles(1024, 768), WarpgroupTiles::kFine);
  EXPECT_EQ(tiles(2048, 768), WarpgroupTiles::kSmall);
  EXPECT_EQ(tiles(4096, 768), WarpgroupTiles::kWide);
  EXPECT_EQ(tiles(4096, 3072), WarpgroupTiles::kWide);
  EXPECT_EQ(tiles(4096, 3064), WarpgroupTiles::kSmall);  // no whole segments
  const auto few = [&](int64_t k) { return *kernels::PlanCodeProduct(128, 768, 1, k, device); };
  EXPECT_EQ(few(768).blocks, 24u);
  EXPECT_EQ(few(768).splits, 1);
  EXPECT_EQ(few(2048).splits, 2);
  EXPECT_EQ(few(3072).blocks, 96u);
  EXPECT_EQ(few(3072).splits, 4);
  EXPECT_EQ(few(1 << 20).splits, 4);
  const auto of_columns = [&](int64_t n) { return kernels::PlanCodeProduct(128, n, 1, 1 << 20, device)->splits; };
  EXPECT_EQ(of_columns(960), 4);   // 30 tiles, and as many clusters of four have room
  EXPECT_EQ(of_columns(1024), 2);  // 32
  EXPECT_EQ(kernels::PlanCodeProduct(512, 768, 1, 3072, device)->splits, 1);  // no multiprocessor is idle
  device.simulated = true;
  EXPECT_EQ(few(3072).splits, 1);  // no clusters
  device.simulated = false;
  EXPECT_EQ(kernels::PlanCodeProduct(1 << 20, 16, 1, 768, device)->blocks, 132u);
  // Tiles that lie within a part.
  EXPECT_EQ(tiles(4096, 768, 3), WarpgroupTiles::kWide);
  EXPECT_EQ(tiles(4096, 1024, 3), WarpgroupTiles::kSmall);
  EXPECT_EQ(tiles(4096, 64, 3), WarpgroupTiles::kFine);
  EXPECT_FALSE(kernels::PlanCodeProduct(4096, 80, 3, 768, device).has_value());
}

}  // namespace
}  // namespace cudaep::ops
