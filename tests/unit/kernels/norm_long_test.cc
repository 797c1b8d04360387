// Normalisation of long rows: every variant forced, against float64, and what the planner makes of them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "../device/device_fixture.h"
#include "core/data_type_traits.h"
#include "kernels/common/row_plan.h"
#include "kernels/norm/layer_norm.h"
#include "norm_device.h"

namespace cudaep::kernels {
namespace {

using Kind = NormPlan::Kind;

// With room for `slots` slots.
device::DeviceInfo Simulated(int slots = kLongSlots) {
  device::DeviceInfo info = Gpu();
  info.multiprocessors = 2;
  info.simulated = true;
  info.shared_bytes_per_block = static_cast<size_t>(slots) * LongSlotBytes(kLongThreads) + 3072;
  info.shared_bytes_per_multiprocessor = info.shared_bytes_per_block + 1024;
  return info;
}

struct Row {
  int64_t rows = 1, packs = 1;
  int together = 1;
  int slots = kLongSlots;
  RowStatistic statistic = RowStatistic::kVariance;
  bool shift = true;
  bool in_place = false;
  double offset = 0, spread = 1;  // of the elements
  double inverse_tolerance = 1e-5;
};

class NormLongTest : public device::testing::DeviceTest {
 protected:
  // `tolerance` is that of results of about 1.
  template <DataType type>
  void Check(const Row& row, double tolerance) {
    using T = CppType<type>;
    const int64_t elems = row.packs * RowPack(sizeof(T));
    SCOPED_TRACE(::testing::Message() << DataTypeName(type) << ' ' << row.rows << 'x' << elems << ", " << row.together
                                      << " together, " << row.slots << " slots");
    const NormProblem problem{type, type, row.rows, elems, true, true};
    const auto plan = PlanNorm(problem, Simulated(row.slots), true, {Kind::kLong, row.together});
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    ASSERT_EQ(plan.value().kind, Kind::kLong);
    ASSERT_EQ(plan.value().together, row.together);
    ASSERT_EQ(plan.value().slots, row.slots);
    const LayerNormPlans plans{plan.value(), plan.value()};
    const auto size = static_cast<size_t>(row.rows * elems), columns = static_cast<size_t>(elems);
    uint32_t state = 7;
    const auto values = [&](size_t count, double offset, double spread) {
      std::vector<T> v(count);
      for (T& value : v) {
        state = state * 1664525u + 1013904223u;
        value = Store<T>(static_cast<ComputeType<T>>(offset + spread * (static_cast<double>(state >> 16) / 32768 - 1)));
      }
      return v;
    };
    const auto x = values(size, row.offset, row.spread), scale = values(columns, 1, 1), shift = values(columns, 0, 1);
    const bool centred = row.statistic == RowStatistic::kRms;
    T* const from = Upload(x);
    T* const y = row.in_place ? from : Allocate<T>(size);
    auto* const mean = Allocate<float>(static_cast<size_t>(row.rows));
    auto* const inv_std = Allocate<float>(static_cast<size_t>(row.rows));
    LayerNormArgs args;
    args.x_type = args.y_type = type;
    args.x = from;
    args.scale = Upload(scale);
    if (row.shift) args.beta = Upload(shift);
    args.y = y;
    args.mean = mean;
    args.inv_std = inv_std;
    args.rows = row.rows;
    args.elems = elems;
    args.scale_map.columns = args.beta_map.columns = elems;
    args.epsilon = 1e-6;
    args.statistic = row.statistic;
    args.plans = &plans;
    ASSERT_OK(LaunchLayerNorm(args, stream()));
    const auto result = Download(y, size);
    const auto means = Download(mean, static_cast<size_t>(row.rows));
    const auto inverses = Download(inv_std, static_cast<size_t>(row.rows));
    for (int64_t r = 0; r < row.rows; ++r) {
      const auto at = [&](int64_t i) { return static_cast<double>(Load(x[static_cast<size_t>(r * elems + i)])); };
      double average = 0, squares = 0;
      for (int64_t i = 0; i < elems && !centred; ++i) average += at(i) / static_cast<double>(elems);
      for (int64_t i = 0; i < elems; ++i) squares += (at(i) - average) * (at(i) - average);
      const double inverse = 1 / std::sqrt(squares / static_cast<double>(elems) + 1e-6);
      ASSERT_NEAR(means[static_cast<size_t>(r)], average, 1e-6 * (std::abs(row.offset) + row.spread)) << "row " << r;
      ASSERT_NEAR(inverses[static_cast<size_t>(r)] / inverse, 1, row.inverse_tolerance) << "row " << r;
      for (int64_t i = 0; i < elems; ++i) {
        const auto column = static_cast<size_t>(i);
        const double wanted = (at(i) - average) * inverse * static_cast<double>(Load(scale[column])) +
                              (row.shift ? static_cast<double>(Load(shift[column])) : 0);
        ASSERT_NEAR(static_cast<double>(Load(result[static_cast<size_t>(r * elems + i)])), wanted, tolerance * 4)
            << "row " << r << ", column " << i;
      }
    }
  }

  template <DataType type>
  void CheckAll(double tolerance) {
    for (const int together : {1, 2, 4}) {
      // In registers; a piece of a chunk; a whole chunk and one pack; in slots, with what comes next, more rows than
      // blocks and not a multiple of those that go together.
      for (const int64_t packs : {1, 33, 2049 / together, 9000 / together}) {
        Check<type>({.rows = 5, .packs = packs, .together = together}, tolerance);
      }
      // Longer than registers and ring, of one slot, of two and of all.
      Check<type>({.rows = 3, .packs = 4 * 2048 + 65, .together = together, .slots = 1}, tolerance);
      Check<type>({.rows = 7, .packs = 5 * 2048 - 1, .together = together, .slots = 2, .shift = false}, tolerance);
    }
    Check<type>({.rows = 3, .packs = 11 * 2048 + 31, .in_place = true}, tolerance);
    Check<type>({.rows = 3, .packs = 11 * 2048 + 31, .statistic = RowStatistic::kRms, .shift = false}, tolerance);
    Check<type>({.rows = 5, .packs = 3000, .together = 2, .statistic = RowStatistic::kRms, .in_place = true},
                tolerance);
  }
};

TEST_F(NormLongTest, EveryVariantInFloat) { CheckAll<DataType::kFloat>(3e-6); }
TEST_F(NormLongTest, EveryVariantInFloat16) { CheckAll<DataType::kFloat16>(6e-4); }
TEST_F(NormLongTest, EveryVariantInBFloat16) { CheckAll<DataType::kBFloat16>(5e-3); }

// A difference of squares would have no digit left.
TEST_F(NormLongTest, ASmallDeviationFromALargeMeanIsFound) {
  for (const int together : {1, 4}) {
    Check<DataType::kFloat>(
        {.rows = 5, .packs = 4099, .together = together, .offset = 30000, .spread = 4, .inverse_tolerance = 1e-4},
        0.002);
  }
}

// In its own row alone, whatever goes together with it.
TEST_F(NormLongTest, WhatIsNoNumberStaysInItsRow) {
  constexpr int64_t kRows = 6, kElems = 4 * 3001;
  for (const int together : {1, 2, 4}) {
    const auto plan = PlanNorm({DataType::kFloat, DataType::kFloat, kRows, kElems, true, true}, Simulated(), true,
                               {Kind::kLong, together});
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    const LayerNormPlans plans{plan.value(), plan.value()};
    std::vector<float> x(kRows * kElems), scale(kElems, 1.0f);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 31);
    x[1 * kElems + 77] = std::numeric_limits<float>::quiet_NaN();
    x[2 * kElems + kElems - 1] = std::numeric_limits<float>::infinity();
    x[5 * kElems] = -std::numeric_limits<float>::infinity();
    float* const y = Allocate<float>(x.size());
    LayerNormArgs args;
    args.x_type = args.y_type = DataType::kFloat;
    args.x = Upload(x);
    args.scale = Upload(scale);
    args.y = y;
    args.rows = kRows;
    args.elems = kElems;
    args.scale_map.columns = args.beta_map.columns = kElems;
    args.epsilon = 1e-5;
    args.plans = &plans;
    ASSERT_OK(LaunchLayerNorm(args, stream()));
    const std::vector<float> result = Download(y, x.size());
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t i = 0; i < kElems; ++i) {
        const float value = result[static_cast<size_t>(r * kElems + i)];
        ASSERT_EQ(std::isnan(value), r == 1 || r == 2 || r == 5) << together << " together, row " << r << ", " << i;
        ASSERT_LT(std::isnan(value) ? 0 : std::abs(value), 2) << together << " together, row " << r << ", " << i;
      }
    }
  }
}

TEST_F(NormLongTest, RowsTakeAsManyBlocksAsHoldThem) {
  const auto plan = [](int64_t rows, int64_t elems, bool same_affine) {
    const auto result = PlanNorm({DataType::kFloat16, DataType::kFloat16, rows, elems, true, same_affine}, Gpu());
    EXPECT_OK(result.status());
    EXPECT_EQ(result.value().kind, Kind::kLong);
    return result.value();
  };
  const NormPlan pairs = plan(1024, 131072, true);  // of rows, half of each with one of two blocks
  EXPECT_EQ(pairs.together, 2);
  EXPECT_EQ(pairs.cluster, 2u);
  EXPECT_EQ(pairs.slots, kLongSlots);
  EXPECT_EQ(pairs.blocks, 2 * 64);  // 8 rounds
  EXPECT_TRUE(pairs.read_once);
  const NormPlan single = plan(1024, 131072, false);
  EXPECT_EQ(single.together, 1);
  EXPECT_EQ(single.cluster, 1u);
  EXPECT_EQ(single.blocks, 128);
  EXPECT_EQ(plan(1024, 262144, false).cluster, 2u);
  const NormPlan wide = plan(1024, 262144, true);  // two blocks hold one, and no pair
  EXPECT_EQ(wide.together, 1);
  EXPECT_EQ(wide.cluster, 2u);
  const NormPlan most = plan(1024, 1 << 20, false), beyond = plan(1024, 1 << 21, false);
  EXPECT_EQ(most.cluster, 8u);
  EXPECT_LE(most.blocks, 15 * 8);  // all of them at once
  EXPECT_TRUE(most.read_once);
  EXPECT_EQ(beyond.cluster, 8u);
  EXPECT_FALSE(beyond.read_once);
  const NormPlan few = plan(16, 262144, true), fewer = plan(32, 65536, true);
  EXPECT_EQ(few.together, 1);
  EXPECT_EQ(few.cluster, 8u);  // where fewer would leave most multiprocessors idle
  EXPECT_EQ(few.blocks, 8 * 8);
  EXPECT_EQ(fewer.cluster, 4u);
}

TEST_F(NormLongTest, WhatCannotBeIsRefused) {
  const auto refused = [](const NormProblem& problem, bool packed, int together = 0) {
    EXPECT_FAILS(PlanNorm(problem, Gpu(), packed, {Kind::kLong, together}).status(), kInvalidArgument,
                 "no long normalisation");
  };
  const NormProblem whole{DataType::kFloat16, DataType::kFloat16, 8, 65536, true, true};
  EXPECT_OK(PlanNorm(whole, Gpu(), true, {Kind::kLong, 4}).status());
  refused(whole, false);
  refused(whole, true, 3);
  refused(whole, true, 8);
  refused({DataType::kFloat16, DataType::kFloat16, 8, 65536}, true, 2);                 // scales of their own
  refused({DataType::kFloat16, DataType::kFloat16, 8, 65537, true, true}, true);        // no whole packs
  refused({DataType::kFloat16, DataType::kFloat, 8, 65536, true, true}, true);          // two types
  refused({DataType::kDouble, DataType::kDouble, 8, 65536, true, true}, true);          // one element an access
  refused({DataType::kFloat16, DataType::kFloat16, 8, 65536, true, true, true}, true);  // a second tensor
}

}  // namespace
}  // namespace cudaep::kernels
