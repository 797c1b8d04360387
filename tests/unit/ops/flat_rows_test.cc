// Products by tiles of 64 rows: every end of them, clusters, and what lies in memory when they begin.
#include "core/shape.h"
#include "kernels/movement/transpose.h"
#include "many_rows_fixture.h"

namespace cudaep::ops {
namespace {

using FlatRowsTest = ManyRowsTest;

// What ends tiles of 64 rows: activation and residual.
constexpr std::pair<Activation, bool> kFlatEnds[] = {{Activation::kNone, false},
                                                     {Activation::kNone, true},
                                                     {Activation::kRelu, false},
                                                     {Activation::kRelu, true},
                                                     {Activation::kGeluErf, false}};

// With more and fewer steps than the ring has stages, and several tiles a block.
TEST_F(FlatRowsTest, TilesOf64RowsWithEveryEnd) {
  for (const WarpgroupTiles tiles : {WarpgroupTiles::kFinest, WarpgroupTiles::kFlat}) {
    for (const auto& [activation, residual] : kFlatEnds) {
      const auto check = [&](DataType type, int64_t m, int64_t n, int64_t k, bool bias, unsigned blocks) {
        for (const bool in_place : {true, false}) {
          CheckProduct({.type = type,
                        .m = m,
                        .n = n,
                        .k = k,
                        .bias = bias,
                        .residual = residual,
                        .activation = activation,
                        .constant_b = in_place,
                        .constant_bias = k > 100},
                       {tiles, blocks}, in_place);
        }
      };
      check(DataType::kFloat16, 64, 128, 64, true, 1);
      check(DataType::kFloat16, 1, 32, 8, false, 1);
      check(DataType::kBFloat16, 65, 160, 200, true, 2);  // parts of tiles
      check(DataType::kFloat16, 131, 96, 1000, true, 1);  // rounds of the ring
      check(DataType::kBFloat16, 130, 288, 840, false, 4);
    }
  }
}

// With half of a ring, as two blocks of a multiprocessor have: more and fewer steps, several tiles a block.
TEST_F(FlatRowsTest, HalvesOfARing) {
  for (const auto& [activation, residual] : kFlatEnds) {
    for (const unsigned blocks : {1u, 2u}) {
      CheckProduct({.m = 33,
                    .n = 160,
                    .k = 840,
                    .bias = true,
                    .residual = residual,
                    .activation = activation,
                    .constant_b = true},
                   {WarpgroupTiles::kFinest, blocks, 1, 2});
    }
  }
}

// The inner dimension among the blocks of a cluster.
TEST_F(FlatRowsTest, FinestTilesInClusters) {
  if (context_->device_info().simulated) GTEST_SKIP() << "no clusters";
  for (const auto& [activation, residual] : kFlatEnds) {
    const auto check = [&](DataType type, int64_t m, int64_t n, int64_t k, unsigned blocks, int splits) {
      CheckProduct({.type = type, .m = m, .n = n, .k = k, .bias = true, .residual = residual, .activation = activation},
                   {WarpgroupTiles::kFinest, blocks, splits});
    };
    check(DataType::kFloat16, 64, 64, 128, 2, 2);
    check(DataType::kFloat16, 130, 224, 1160, 24, 2);  // 10 and 9 steps
    check(DataType::kBFloat16, 128, 96, 3072, 16, 4);
    check(DataType::kFloat16, 65, 160, 840, 24, 4);  // 4, 4, 4 and 2
    check(DataType::kBFloat16, 33, 64, 2048, 2, 2);  // more than the ring has
    CheckProduct({.m = 33, .n = 96, .k = 3072, .bias = true, .residual = residual, .activation = activation},
                 {WarpgroupTiles::kFinest, 8, 4, 2});
  }
}

// Products behind each other, each of which begins before the one in front of it is done: among the blocks of clusters
// where there are some, in place on the residual and elsewhere in turns.
TEST_F(FlatRowsTest, ChainsOfFlatProducts) {
  constexpr int64_t kRows = 40, kSize = 768;
  const std::vector<double> turn = [] {
    std::vector<double> b(kSize * kSize);
    for (size_t i = 0; i < kSize; ++i) b[i * kSize + (i + 1) % kSize] = 1;  // columns by one
    return b;
  }();
  const std::vector<double> first = TestValues(kRows * kSize, 1), none(first.size(), NAN);
  const void* const b = Upload(DataType::kFloat16, turn);
  void* const even = Upload(DataType::kFloat16, first);
  void* const odd = Upload(DataType::kFloat16, none);
  const ManyRowsProduct p{.m = kRows, .n = kSize, .k = kSize, .residual = true, .constant_b = true};
  const auto plan = kernels::PlanFinest(p.m, p.n, p.k * 2, context_->device_info());
  ASSERT_EQ(plan.splits, context_->device_info().simulated ? 1 : 2);
  // even + turn(even), then odd + turn(even) in place, which is even for the next.
  std::vector<double> wanted[2] = {first, none};
  const auto rounded = [](double x) { return static_cast<double>(ToFloat(Store<Half>(static_cast<float>(x)))); };
  for (int i = 0; i < 6; ++i) {
    const bool in_place = i % 2 == 1;
    void* const to = i / 2 % 2 == 0 ? odd : even;
    const void* const from = to == odd ? even : odd;
    Check(kernels::LaunchManyRows(p, plan, {.a = from, .b = b, .c = to, .residual = in_place ? to : from},
                                  context_->stream()));
    std::vector<double>& of_to = wanted[to == odd ? 1 : 0];
    const std::vector<double>& of_from = wanted[to == odd ? 0 : 1];
    for (size_t j = 0; j < of_to.size(); ++j) {
      of_to[j] = rounded((in_place ? of_to[j] : of_from[j]) + of_from[j / kSize * kSize + (j % kSize + 1) % kSize]);
    }
  }
  for (const bool is_odd : {false, true}) {
    const std::vector<double> got = Download(DataType::kFloat16, is_odd ? odd : even, kRows * kSize);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], wanted[is_odd ? 1 : 0][i]) << i << ' ' << is_odd;
  }
}

// Of boxes that are asked for ahead none is of what the kernel in front writes.
TEST_F(FlatRowsTest, BThatTheKernelInFrontWrites) {
  constexpr int64_t kSize = 64;
  const std::vector<double> a = TestValues(kSize * kSize, 1), unit = [] {
    std::vector<double> one(kSize * kSize);
    for (size_t i = 0; i < kSize; ++i) one[i * kSize + i] = 1;
    return one;
  }();
  auto transpose = kernels::PlanTranspose(Shape{kSize, kSize}, Shape{1, 0}, 2);
  CUDAEP_ASSERT_OK(transpose.status());
  for (const WarpgroupTiles tiles : {WarpgroupTiles::kFinest, WarpgroupTiles::kFlat, WarpgroupTiles::kSmall}) {
    void* const b = Upload(DataType::kFloat16, std::vector<double>(a.size()));
    void* const c = Upload(DataType::kFloat16, std::vector<double>(a.size()));
    Check(kernels::LaunchTranspose(*transpose, Upload(DataType::kFloat16, a), b, context_->stream()));
    Check(kernels::LaunchManyRows({.m = kSize, .n = kSize, .k = kSize}, {tiles, 1},
                                  {.a = Upload(DataType::kFloat16, unit), .b = b, .c = c}, context_->stream()));
    ExpectNear(DataType::kFloat16, Download(DataType::kFloat16, c, kSize * kSize), a);
  }
}

}  // namespace
}  // namespace cudaep::ops
