// Normalisation of long rows, alone and by teams: every variant forced, against float64, and what the planner makes of
// them.
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
  int slots = kLongSlots;
  Kind kind = Kind::kLong;
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
    SCOPED_TRACE(::testing::Message() << DataTypeName(type) << ' ' << row.rows << 'x' << elems << ", "
                                      << (row.kind == Kind::kTeam ? "team" : "long") << ", " << row.slots << " slots");
    const NormProblem problem{type, type, row.rows, elems, true, true};
    const auto plan = PlanNorm(problem, Simulated(row.slots), true, {row.kind});
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    ASSERT_EQ(plan.value().kind, row.kind);
    if (row.kind == Kind::kLong) {
      ASSERT_EQ(plan.value().slots, row.slots);
    }
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
    // In registers; a piece of a chunk; a whole chunk and one pack; in slots, with what comes next, more rows than
    // blocks.
    for (const int64_t packs : {1, 33, 2049, 9000}) Check<type>({.rows = 5, .packs = packs}, tolerance);
    // Longer than registers and ring, of one slot, of two and of all.
    Check<type>({.rows = 3, .packs = 4 * 2048 + 65, .slots = 1}, tolerance);
    Check<type>({.rows = 7, .packs = 5 * 2048 - 1, .slots = 2, .shift = false}, tolerance);
    Check<type>({.rows = 3, .packs = 11 * 2048 + 31, .in_place = true}, tolerance);
    Check<type>({.rows = 3, .packs = 11 * 2048 + 31, .statistic = RowStatistic::kRms, .shift = false}, tolerance);
    // Teams: one warp with a pack, some warps without, all whole; one row in shared memory, some, and more rows than
    // all stages of the exchange.
    for (const int64_t packs : {1, 33, 300, 1025, 2048}) {
      for (const int64_t rows : {1, 2, 37}) {
        Check<type>({.rows = rows, .packs = packs, .kind = Kind::kTeam}, tolerance);
      }
    }
    Check<type>({.rows = 9, .packs = 2047, .slots = 2, .kind = Kind::kTeam, .in_place = true}, tolerance);
    Check<type>({.rows = 41, .packs = 1500, .kind = Kind::kTeam, .statistic = RowStatistic::kRms, .shift = false},
                tolerance);
  }
};

TEST_F(NormLongTest, EveryVariantInFloat) { CheckAll<DataType::kFloat>(3e-6); }
TEST_F(NormLongTest, EveryVariantInFloat16) { CheckAll<DataType::kFloat16>(6e-4); }
TEST_F(NormLongTest, EveryVariantInBFloat16) { CheckAll<DataType::kBFloat16>(5e-3); }

// A difference of squares would have no digit left.
TEST_F(NormLongTest, ASmallDeviationFromALargeMeanIsFound) {
  for (const auto& [kind, packs] : {std::pair{Kind::kLong, 4099}, {Kind::kTeam, 2001}}) {
    Check<DataType::kFloat>(
        {.rows = 5, .packs = packs, .kind = kind, .offset = 30000, .spread = 4, .inverse_tolerance = 1e-4}, 0.002);
  }
}

// In its own row alone, whatever is worked on beside it.
TEST_F(NormLongTest, WhatIsNoNumberStaysInItsRow) {
  constexpr int64_t kRows = 6;
  for (const auto& [kind, elems] : {std::pair<Kind, int64_t>{Kind::kLong, 4 * 3001}, {Kind::kTeam, 4 * 2001}}) {
    SCOPED_TRACE(kind == Kind::kTeam ? "team" : "long");
    const auto plan =
        PlanNorm({DataType::kFloat, DataType::kFloat, kRows, elems, true, true}, Simulated(), true, {kind});
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    const LayerNormPlans plans{plan.value(), plan.value()};
    const auto columns = static_cast<size_t>(elems);
    std::vector<float> x(kRows * columns), scale(columns, 1.0f);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 31);
    x[1 * columns + 77] = std::numeric_limits<float>::quiet_NaN();
    x[2 * columns + columns - 1] = std::numeric_limits<float>::infinity();
    x[5 * columns] = -std::numeric_limits<float>::infinity();
    float* const y = Allocate<float>(x.size());
    LayerNormArgs args;
    args.x_type = args.y_type = DataType::kFloat;
    args.x = Upload(x);
    args.scale = Upload(scale);
    args.y = y;
    args.rows = kRows;
    args.elems = elems;
    args.scale_map.columns = args.beta_map.columns = elems;
    args.epsilon = 1e-5;
    args.plans = &plans;
    ASSERT_OK(LaunchLayerNorm(args, stream()));
    const std::vector<float> result = Download(y, x.size());
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t i = 0; i < elems; ++i) {
        const float value = result[static_cast<size_t>(r * elems + i)];
        ASSERT_EQ(std::isnan(value), r == 1 || r == 2 || r == 5) << "row " << r << ", " << i;
        ASSERT_LT(std::isnan(value) ? 0 : std::abs(value), 2) << "row " << r << ", " << i;
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
  const NormPlan single = plan(1024, 131072, false);
  EXPECT_EQ(single.cluster, 1u);
  EXPECT_EQ(single.slots, kLongSlots);
  EXPECT_EQ(single.blocks, 128);  // 8 rounds
  EXPECT_TRUE(single.read_once);
  EXPECT_EQ(plan(1024, 262144, false).cluster, 2u);
  EXPECT_EQ(plan(1024, 262152, true).cluster, 4u);  // no team holds it
  const NormPlan most = plan(1024, 1 << 20, false), beyond = plan(1024, 1 << 21, false);
  EXPECT_EQ(most.cluster, 8u);
  EXPECT_LE(most.blocks, 15 * 8);  // all of them at once
  EXPECT_TRUE(most.read_once);
  EXPECT_EQ(beyond.cluster, 8u);
  EXPECT_FALSE(beyond.read_once);
  const NormPlan few = plan(16, 262144, false), fewer = plan(32, 65536, true);
  EXPECT_EQ(few.cluster, 8u);  // where fewer would leave most multiprocessors idle
  EXPECT_EQ(few.blocks, 8 * 8);
  EXPECT_EQ(fewer.cluster, 4u);
}

TEST_F(NormLongTest, ATeamIsAsSmallAsHoldsARow) {
  const auto plan = [](int64_t rows, int64_t elems, DataType type = DataType::kFloat16) {
    const auto result = PlanNorm({type, type, rows, elems, true, true}, Gpu());
    EXPECT_OK(result.status());
    return result.value();
  };
  const NormPlan eight = plan(1024, 131072), four = plan(2048, 65536), two = plan(4096, 32768);
  for (const NormPlan& p : {eight, four, two}) {
    EXPECT_EQ(p.kind, Kind::kTeam);
    EXPECT_EQ(p.piece, 256);
    EXPECT_EQ(p.depth, 6);
    EXPECT_EQ(p.width, kTeamThreads);
  }
  EXPECT_EQ(eight.cluster, 8u);
  EXPECT_EQ(eight.blocks, 8 * 15);  // all of them at once
  EXPECT_EQ(four.cluster, 4u);
  EXPECT_EQ(four.blocks, 4 * 32);
  EXPECT_EQ(two.cluster, 2u);
  EXPECT_EQ(two.blocks, 2 * 66);
  const NormPlan largest = plan(512, 262144);
  EXPECT_EQ(largest.cluster, 16u);
  EXPECT_EQ(largest.piece, 256);
  EXPECT_EQ(largest.blocks, 16 * 7);
  const NormPlan shared = plan(4096, 100'000);
  EXPECT_EQ(shared.cluster, 8u);
  EXPECT_EQ(shared.piece, 200);  // of 195.3
  EXPECT_EQ(plan(2048, 65536, DataType::kFloat).cluster, 8u);
  EXPECT_EQ(plan(2048, 131072, DataType::kFloat).cluster, 16u);
  EXPECT_EQ(plan(2048, 131076, DataType::kFloat).kind, Kind::kLong);  // longer than a cluster holds
  EXPECT_EQ(plan(29, 131072).kind, Kind::kLong);                      // less than two rows for each
  EXPECT_EQ(plan(30, 131072).kind, Kind::kTeam);
  const auto forced =
      PlanNorm({DataType::kFloat16, DataType::kFloat16, 33, 512, true, true}, Gpu(), true, {Kind::kTeam});
  ASSERT_OK(forced.status());
  EXPECT_EQ(forced.value().cluster, 2u);  // a launch of clusters, however short the row
}

TEST_F(NormLongTest, WhatCannotBeIsRefused) {
  const auto refused = [](const NormProblem& problem, bool packed, Kind kind = Kind::kLong,
                          const device::DeviceInfo& device = Gpu()) {
    EXPECT_FAILS(PlanNorm(problem, device, packed, {kind}).status(), kInvalidArgument,
                 kind == Kind::kTeam ? "no team normalisation" : "no long normalisation");
  };
  const NormProblem whole{DataType::kFloat16, DataType::kFloat16, 8, 65536, true, true};
  EXPECT_OK(PlanNorm(whole, Gpu(), true, {Kind::kTeam}).status());
  device::DeviceInfo old = Gpu();
  old.major = 8;
  refused(whole, true, Kind::kTeam, old);
  refused(whole, true, Kind::kTeam, Simulated());  // no clusters
  refused(whole, false, Kind::kTeam);
  refused({DataType::kFloat16, DataType::kFloat16, 8, 65536}, true, Kind::kTeam);                // scales of their own
  refused({DataType::kFloat16, DataType::kFloat16, 8, 262'152, true, true}, true, Kind::kTeam);  // too long
  refused(whole, false);
  refused({DataType::kFloat16, DataType::kFloat16, 8, 65537, true, true}, true);        // no whole packs
  refused({DataType::kFloat16, DataType::kFloat, 8, 65536, true, true}, true);          // two types
  refused({DataType::kDouble, DataType::kDouble, 8, 65536, true, true}, true);          // one element an access
  refused({DataType::kFloat16, DataType::kFloat16, 8, 65536, true, true, true}, true);  // a second tensor
}

}  // namespace
}  // namespace cudaep::kernels
