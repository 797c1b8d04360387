#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>

#include "../device/device_fixture.h"
#include "core/float16.h"
#include "kernels/norm/layer_norm.h"
#include "norm_device.h"

namespace cudaep::kernels {
namespace {

using Kind = NormPlan::Kind;

device::DeviceInfo Simulated() {
  device::DeviceInfo info = Gpu();
  info.multiprocessors = 2;
  info.simulated = true;
  return info;
}

class NormKernelTest : public device::testing::DeviceTest {
 protected:
  // Layer normalisation of x + skip by the kind of kernel, against float64.
  void Check(int64_t rows, int64_t elems, Kind kind, bool skip, bool packed) {
    const NormProblem problem{DataType::kFloat, DataType::kFloat, rows, elems, true, false, skip};
    const auto plan = PlanNorm(problem, Simulated(), packed, {kind});
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    ASSERT_EQ(plan.value().kind, kind);
    const auto values = [](size_t count, uint32_t seed) {
      std::vector<float> v(count);
      for (float& x : v) x = static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 16) / 65536.0f + 3;
      return v;
    };
    const auto size = static_cast<size_t>(rows * elems);
    const auto x = values(size, 1), more = values(size, 2), scale = values(static_cast<size_t>(elems), 3);
    const LayerNormPlans plans{plan.value(), plan.value()};
    float* const y = Allocate<float>(size);
    LayerNormArgs args;
    args.x_type = args.y_type = DataType::kFloat;
    args.x = Upload(x);
    if (skip) args.skip = Upload(more);
    args.scale = Upload(scale);
    args.y = y;
    args.rows = args.skip_rows = rows;
    args.elems = elems;
    args.scale_map.columns = args.beta_map.columns = elems;
    args.epsilon = 1e-5;
    args.plans = &plans;
    ASSERT_OK(LaunchLayerNorm(args, stream()));
    const std::vector<float> result = Download(y, size);
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<double> sum;
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < elems; ++i) {
        const auto at = static_cast<size_t>(row * elems + i);
        sum.push_back(double{x[at]} + (skip ? more[at] : 0.0f));
        mean += sum.back() / static_cast<double>(elems);
      }
      for (const double value : sum) variance += (value - mean) * (value - mean) / static_cast<double>(elems);
      for (size_t i = 0; i < sum.size(); ++i) {
        const double wanted = (sum[i] - mean) / std::sqrt(variance + 1e-5) * scale[i];
        ASSERT_NEAR(result[static_cast<size_t>(row * elems) + i], wanted, 2e-5) << "row " << row << ", column " << i;
      }
    }
  }
};

TEST_F(NormKernelTest, EveryKindOfKernelGivesTheSame) {
  for (const bool skip : {false, true}) {
    for (const int64_t elems : {128, 516, 2048}) {
      Check(13, elems, Kind::kDirect, skip, true);
      if (!skip) Check(13, elems, Kind::kRing, skip, true);
      if (!skip) Check(13, elems, Kind::kLong, skip, true);
      Check(2, elems, Kind::kStream, skip, true);
    }
    Check(5, 101, Kind::kDirect, skip, false);
    Check(2, 101, Kind::kStream, skip, false);
  }
}

// Scale and shift of channels, three channels a row in groups of two rows, and every statistic.
TEST_F(NormKernelTest, EveryKindOfKernelTakesChannelsAndStatistics) {
  const auto check = [&](int64_t columns, Kind kind, bool packed, RowStatistic statistic) {
    constexpr int64_t kRows = 10, kGroups = 2, kChannels = 3;
    const int64_t elems = columns * kChannels;
    const auto plan = PlanNorm({DataType::kFloat, DataType::kFloat, kRows, elems}, Simulated(), packed, {kind});
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    const LayerNormPlans plans{plan.value(), plan.value()};
    std::vector<float> x(static_cast<size_t>(kRows * elems)), affine(kGroups * kChannels);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * i % 17) + 2;
    for (size_t i = 0; i < affine.size(); ++i) affine[i] = static_cast<float>(i) - 2.5f;
    const bool scaled = statistic == RowStatistic::kVariance || statistic == RowStatistic::kRms;
    float* const y = Allocate<float>(x.size());
    LayerNormArgs args;
    args.x_type = args.y_type = DataType::kFloat;
    args.x = Upload(x);
    args.scale = scaled ? Upload(affine) : nullptr;
    args.beta = scaled ? args.scale : nullptr;
    args.y = y;
    args.rows = kRows;
    args.elems = elems;
    args.scale_map = args.beta_map = {.rows = kGroups, .column_repeat = columns, .columns = kChannels};
    args.epsilon = statistic == RowStatistic::kL2 ? 0 : 0.5;
    args.statistic = statistic;
    args.plans = &plans;
    ASSERT_OK(LaunchLayerNorm(args, stream()));
    const std::vector<float> result = Download(y, x.size());
    for (int64_t row = 0; row < kRows; ++row) {
      double mean = 0, squares = 0;
      const auto at = [&](int64_t i) { return double{x[static_cast<size_t>(row * elems + i)]}; };
      const bool centred = statistic == RowStatistic::kRms || statistic == RowStatistic::kL2;
      for (int64_t i = 0; i < elems && !centred; ++i) mean += at(i) / static_cast<double>(elems);
      for (int64_t i = 0; i < elems; ++i) squares += (at(i) - mean) * (at(i) - mean);
      const double average = squares / static_cast<double>(elems);
      const double divisor = statistic == RowStatistic::kL2          ? std::sqrt(squares)
                             : statistic == RowStatistic::kDeviation ? std::sqrt(average) + 0.5
                                                                     : std::sqrt(average + 0.5);
      for (int64_t i = 0; i < elems; ++i) {
        const double by = affine[static_cast<size_t>(row % kGroups * kChannels + i / columns)];
        const double wanted = (at(i) - mean) / divisor * (scaled ? by : 1) + (scaled ? by : 0);
        ASSERT_NEAR(result[static_cast<size_t>(row * elems + i)], wanted, 3e-5) << "row " << row << ", column " << i;
      }
    }
  };
  for (const auto statistic :
       {RowStatistic::kVariance, RowStatistic::kRms, RowStatistic::kDeviation, RowStatistic::kL2}) {
    for (const Kind kind : {Kind::kDirect, Kind::kRing, Kind::kLong, Kind::kStream}) check(172, kind, true, statistic);
    check(700, Kind::kRing, true, statistic);
    check(8004, Kind::kLong, true, statistic);
    check(3000, Kind::kStream, true, statistic);
    for (const Kind kind : {Kind::kDirect, Kind::kStream}) check(33, kind, false, statistic);
  }
}

// Batches and teams, which hold a scale, and rings, which do not: of the last rows, of whole and of ragged warps, with
// everything there may be: skip and bias, the sum written, a shift, statistics. A few 16-bit numbers, so that sums are
// exact.
TEST_F(NormKernelTest, WhatHoldsAScaleGivesWhatRowsDo) {
  const auto check = [&](Kind kind, int64_t rows, int64_t elems, bool skip, RowStatistic statistic) {
    SCOPED_TRACE(::testing::Message() << rows << " x " << elems << (skip ? " with skip" : ""));
    const NormProblem problem{DataType::kFloat16, DataType::kFloat16, rows, elems, true, true, skip};
    const auto size = static_cast<size_t>(rows * elems);
    const auto halves = [&](size_t count, uint32_t seed) {
      std::vector<Half> v(count);
      for (Half& h : v) h = HalfFromFloat(static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 27) / 8 - 1.5f);
      return Upload(v);
    };
    LayerNormArgs args;
    args.x_type = args.y_type = DataType::kFloat16;
    args.x = halves(size, 1);
    if (skip) args.skip = halves(size / static_cast<size_t>(rows), 2);
    if (skip) args.bias = halves(static_cast<size_t>(elems), 3);
    args.scale = halves(static_cast<size_t>(elems), 4);
    if (statistic == RowStatistic::kVariance) args.beta = halves(static_cast<size_t>(elems), 5);
    args.rows = rows;
    args.elems = elems;
    args.scale_map.columns = args.beta_map.columns = elems;
    args.epsilon = 1e-3;
    args.statistic = statistic;
    std::vector<Half> y[2], sum[2];
    std::vector<float> inverse[2];
    const Kind kinds[] = {kind, Kind::kDirect};
    for (int i = 0; i < 2; ++i) {
      const auto plan = PlanNorm(problem, Simulated(), true, {kinds[i]});
      ASSERT_TRUE(plan.ok()) << plan.status().ToString();
      ASSERT_EQ(plan.value().kind, kinds[i]);
      const LayerNormPlans plans{plan.value(), plan.value()};
      args.plans = &plans;
      auto* const to = Allocate<Half>(size);
      auto* const added = Allocate<Half>(size);
      auto* const inv_std = Allocate<float>(static_cast<size_t>(rows));
      args.y = to;
      if (skip) args.sum = added;
      args.inv_std = inv_std;
      ASSERT_OK(LaunchLayerNorm(args, stream()));
      y[i] = Download(to, size);
      if (skip) sum[i] = Download(added, size);
      inverse[i] = Download(inv_std, static_cast<size_t>(rows));
    }
    for (size_t i = 0; i < size; ++i) {
      ASSERT_NEAR(ToFloat(y[0][i]), ToFloat(y[1][i]), 4e-3) << "element " << i;
      if (!skip) continue;
      ASSERT_EQ(sum[0][i].bits, sum[1][i].bits) << "element " << i;
    }
    for (size_t i = 0; i < inverse[0].size(); ++i) ASSERT_NEAR(inverse[0][i], inverse[1][i], 1e-5) << "row " << i;
  };
  for (const bool skip : {false, true}) {
    for (const auto statistic : {RowStatistic::kVariance, RowStatistic::kRms}) {
      for (const int64_t elems : {8, 520, 1024, 1032, 2048, 2056, 4096, 5000})
        check(Kind::kBatch, 23, elems, skip, statistic);
      check(Kind::kBatch, 1, 16384, skip, statistic);
      if (skip) continue;
      for (const int64_t elems : {8, 3000, 8192, 16384}) {
        check(Kind::kTeam, 31, elems, false, statistic);
        check(Kind::kRing, 11, elems, false, statistic);
      }
    }
  }
}

// A row of equal elements is its shift, however small epsilon is and whatever the element's last bits are.
TEST_F(NormKernelTest, ConstantRowsAreExactlyTheShift) {
  const auto check = [&]<class T>(DataType type, int64_t elems, Kind kind, bool packed, T value, T shift) {
    SCOPED_TRACE(::testing::Message() << DataTypeName(type) << ", " << elems << " elements, kind "
                                      << static_cast<int>(kind) << (packed ? "" : ", one by one"));
    constexpr int64_t kRows = 5;
    const NormProblem problem{type, type, kRows, elems, true, true};
    const auto plan = PlanNorm(problem, Simulated(), packed, {kind});
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    const LayerNormPlans plans{plan.value(), plan.value()};
    const auto size = static_cast<size_t>(kRows * elems), columns = static_cast<size_t>(elems);
    T* const y = Allocate<T>(size);
    LayerNormArgs args;
    args.x_type = args.y_type = type;
    args.x = Upload(std::vector<T>(size, value));
    args.scale = Upload(std::vector<T>(columns, value));
    args.beta = Upload(std::vector<T>(columns, shift));
    args.y = y;
    args.rows = kRows;
    args.elems = elems;
    args.scale_map.columns = args.beta_map.columns = elems;
    args.epsilon = 1e-30;
    args.plans = &plans;
    ASSERT_OK(LaunchLayerNorm(args, stream()));
    const std::vector<T> result = Download(y, size);
    for (size_t i = 0; i < size; ++i) {
      ASSERT_EQ(std::memcmp(&result[i], &shift, sizeof(T)), 0) << "element " << i;
    }
  };
  for (const Kind kind : {Kind::kDirect, Kind::kTeam, Kind::kRing, Kind::kLong, Kind::kStream}) {
    for (const int64_t elems : {12, 128, 516, 2044, 2048, 4092}) {
      check(DataType::kFloat, elems, kind, true, 0.1f, 0.25f);
      check(DataType::kFloat, elems, kind, true, 12345.678f, -3.5f);
      check(DataType::kFloat, elems, kind, true, 3e30f, 0.75f);  // whose square is no float
    }
  }
  for (const Kind kind : {Kind::kDirect, Kind::kStream}) {
    for (const int64_t elems : {1, 3, 11, 257, 1000}) {
      check(DataType::kFloat, elems, kind, false, 0.1f, 0.25f);
      check(DataType::kFloat, elems, kind, false, -3e30f, 0.75f);
      check(DataType::kDouble, elems, kind, false, 0.1, 0.25);
    }
  }
  for (const int64_t elems : {8, 1000, 1024, 1032, 2048, 4096}) {
    for (const Kind kind : {Kind::kBatch, Kind::kRing, Kind::kLong}) {
      check(DataType::kFloat16, elems, kind, true, HalfFromFloat(0.1f), HalfFromFloat(0.25f));
    }
  }
}

TEST_F(NormKernelTest, BatchesAreForRowsOf16BitsThatShareTheirScale) {
  const auto plan = [](DataType type, int64_t rows, int64_t elems, bool same, bool skip, std::optional<Kind> kind) {
    return PlanNorm({type, type, rows, elems, true, same, skip}, Gpu(), true, {kind});
  };
  const auto large = plan(DataType::kBFloat16, 16384, 4096, true, false, {});
  ASSERT_OK(large.status());
  EXPECT_EQ(large.value().kind, Kind::kBatch);
  EXPECT_EQ(large.value().width, 128u);
  EXPECT_EQ(large.value().depth, 4);
  EXPECT_EQ(large.value().blocks, 4096);
  const auto skip = plan(DataType::kFloat16, 16384, 4096, true, true, {});
  ASSERT_OK(skip.status());
  EXPECT_EQ(skip.value().kind, Kind::kBatch);
  EXPECT_EQ(skip.value().depth, 3);
  EXPECT_EQ(skip.value().blocks, 5462);
  EXPECT_EQ(plan(DataType::kFloat16, 1024, 768, true, false, {}).value().kind, Kind::kDirect);  // small
  EXPECT_EQ(plan(DataType::kFloat16, 660, 4096, true, false, {}).value().kind, Kind::kDirect);  // all rows at once
  EXPECT_EQ(plan(DataType::kFloat16, 16384, 4096, false, false, {}).value().kind, Kind::kDirect);
  EXPECT_EQ(plan(DataType::kFloat, 16384, 4096, true, false, {}).value().kind, Kind::kDirect);
  const auto refused = [&](DataType type, int64_t elems, bool same) {
    EXPECT_FAILS(plan(type, 64, elems, same, false, Kind::kBatch).status(), kInvalidArgument, "no batch normalisation");
  };
  refused(DataType::kFloat, 4096, true);
  refused(DataType::kFloat16, 4096, false);
  refused(DataType::kFloat16, 4100, true);
  refused(DataType::kFloat16, 16392, true);
}

TEST_F(NormKernelTest, PlansThatCannotBeAreRefused) {
  const auto plan = [](int64_t elems, Kind kind, bool packed, const device::DeviceInfo& device) {
    return PlanNorm({DataType::kFloat16, DataType::kFloat16, 1024, elems}, device, packed, {kind}).status();
  };
  EXPECT_OK(plan(16384, Kind::kDirect, true, Gpu()));
  EXPECT_FAILS(plan(16392, Kind::kDirect, true, Gpu()), kInvalidArgument, "no direct normalisation of 1024 rows");
  EXPECT_OK(plan(131072, Kind::kRing, true, Gpu()));
  EXPECT_OK(plan(262144, Kind::kRing, true, Gpu()));  // 8 blocks with 4 slots a warp
  EXPECT_FAILS(plan(262152, Kind::kRing, true, Gpu()), kInvalidArgument, "no ring normalisation");
  EXPECT_FAILS(plan(131072, Kind::kRing, true, Simulated()), kInvalidArgument, "no ring normalisation");
  EXPECT_FAILS(plan(1024, Kind::kRing, false, Gpu()), kInvalidArgument, "no ring normalisation");
}

TEST_F(NormKernelTest, RowsTakeAsFewBlocksAsHoldThem) {
  const auto plan = [](int64_t rows, int64_t elems, std::optional<Kind> kind = {}) {
    const auto result = PlanNorm({DataType::kFloat16, DataType::kFloat16, rows, elems}, Gpu(), true, {kind});
    EXPECT_OK(result.status());
    EXPECT_EQ(result.value().kind, Kind::kRing);
    EXPECT_TRUE(result.value().read_once);
    return result.value();
  };
  const NormPlan whole = plan(2048, 32768), pair = plan(1024, 65536, Kind::kRing);
  EXPECT_EQ(whole.cluster, 1u);  // three blocks of a multiprocessor
  EXPECT_EQ(whole.width, 256u);
  EXPECT_EQ(whole.blocks, 2048);
  EXPECT_EQ(whole.slots, 4);
  EXPECT_EQ(pair.cluster, 2u);
  EXPECT_EQ(pair.blocks, 2 * 1024);
  const NormPlan eight = plan(1024, 262144, Kind::kRing);
  EXPECT_EQ(eight.cluster, 8u);
  EXPECT_EQ(eight.width, 256u);
  EXPECT_EQ(eight.slots, 4);
  EXPECT_EQ(eight.blocks, 1024 * 8);
}

// The simulated device, which is asked, holds no clusters, whatever its description says.
TEST_F(NormKernelTest, ClustersThatTheDeviceCannotHoldAreNotPlanned) {
  const auto plan = [](int64_t elems, const NormChoice& forced = {}) {
    return PlanLayerNorm({DataType::kFloat16, DataType::kFloat16, 4096, elems, true, true}, Gpu(), forced);
  };
  EXPECT_EQ(plan(16384).value().packed.kind, Kind::kBatch);
  EXPECT_EQ(plan(131072).value().packed.kind, Kind::kLong);
  EXPECT_EQ(plan(131072).value().packed.cluster, 1u);
  EXPECT_FAILS(plan(131072, {Kind::kRing}).status(), kInvalidArgument, "no ring normalisation");
}

}  // namespace
}  // namespace cudaep::kernels
