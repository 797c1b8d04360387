// What a block of a product of integers keeps of its rows and columns.
#include <gtest/gtest.h>

#include <cstring>

#include "../device/device_fixture.h"
#include "device/launch.h"
#include "kernels/quant/int_gemm_results.cuh"

namespace cudaep::kernels {
namespace {

using int_gemm::kTile, int_gemm::Lines, int_gemm::Tiles;

static_assert(alignof(Tiles) == 16, "its tiles are read 16 bytes at a time");

__global__ void LinesKernel(__grid_constant__ const int_gemm::Call p, Tiles* tiles) {
  int_gemm::LoadLines(p, int_gemm::MatricesOf(p, 0), 0, 0, *tiles);
}

class IntGemmLinesTest : public device::testing::DeviceTest {};

// Results are computed in fours, some of which lie behind the last column.
TEST_F(IntGemmLinesTest, BehindTheLastTheyAreZeros) {
  constexpr int kRows = 5, kColumns = 61;
  const std::vector<int8_t> zeros(kTile, 3);
  const std::vector<float> scales(kTile, 0.5f);
  const std::vector<int32_t> biases(kTile, 7);
  Tiles filled;
  std::memset(&filled, 0xab, sizeof filled);
  auto* const tiles = Upload(std::vector<Tiles>{filled});
  int_gemm::Call call{
      .gemm = {.a_type = DataType::kInt8, .m = kRows, .n = kColumns},
      .at = {.a_zero = {Upload(zeros), kRows},
             .b_zero = {Upload(zeros), kColumns},
             .a_scale = {Upload(scales), kRows},
             .b_scale = {Upload(scales), kColumns},
             .bias = {Upload(biases), kColumns}},
      .batches = 1,
      .a_words = false,
      .b_words = false,
      .y_words = false,
  };
  device::LaunchConfig config;
  config.block.x = int_gemm::kThreads;
  ASSERT_OK(device::Launch(&LinesKernel, config, stream(), call, tiles));
  const std::vector<Tiles> loaded = Download(tiles, 1);
  ASSERT_OK(device::StreamSynchronize(stream()));
  const auto check = [](const Lines& lines, int count, uint32_t bias) {
    for (int i = 0; i < kTile; ++i) {
      const bool is_there = i < count;
      EXPECT_EQ(lines.zero[i], is_there ? 3u : 0u) << i;
      EXPECT_EQ(lines.scale[i], is_there ? 0.5f : 0.0f) << i;
      EXPECT_EQ(lines.bias[i], is_there ? bias : 0u) << i;
    }
  };
  check(loaded[0].row, kRows, 0);
  check(loaded[0].column, kColumns, 7);
}

}  // namespace
}  // namespace cudaep::kernels
