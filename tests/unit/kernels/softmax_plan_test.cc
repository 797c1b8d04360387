// Every way in which softmax of rows can run, forced, against float64; a way that cannot be is an error.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "../device/device_fixture.h"
#include "core/data_type_traits.h"
#include "core/strings.h"
#include "device/device_info.h"
#include "kernels/softmax/softmax.h"

namespace cudaep::kernels {
namespace {

SoftmaxChoice Resident(bool packs, int packs_per_thread = 0) { return {{true, packs, packs_per_thread}}; }
SoftmaxChoice Long(bool packs, unsigned threads = kLongThreads) { return {{false, packs, 0}, threads}; }

// Half of the distance of float16's smallest numbers.
template <class T>
constexpr double kHalfQuantum = std::is_same_v<T, Half> ? 3e-8 : 0;

class SoftmaxPlanTest : public device::testing::DeviceInfoTest {
 protected:
  // `tolerance` is relative for softmax and absolute for its logarithm.
  template <DataType type>
  void Check(int64_t rows, int64_t elems, const SoftmaxChoice& choice, double tolerance) {
    using T = CppType<type>;
    SCOPED_TRACE(StrCat(DataTypeName(type), ' ', rows, 'x', elems, choice.resident ? " resident" : " long",
                        choice.packs ? " packs " : " singles ", choice.packs_per_thread, " threads ",
                        choice.long_threads));
    const auto plan = PlanSoftmax(type, rows, elems, info_, choice);
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    EXPECT_EQ(plan.value().resident, choice.resident);
    EXPECT_EQ(plan.value().pack > 1, choice.packs);
    std::vector<T> x(static_cast<size_t>(rows * elems));
    uint32_t state = 99;
    for (T& value : x) {
      state = state * 1664525u + 1013904223u;
      value = Store<T>(static_cast<ComputeType<T>>(static_cast<double>(state >> 16) / 8192.0 - 4.0));
    }
    T* const y = Allocate<T>(x.size());
    for (const bool log : {false, true}) {
      ASSERT_OK(LaunchSoftmaxRows(
          {.type = type, .x = Upload(x), .y = y, .rows = rows, .elems = elems, .log = log, .plan = plan.value()},
          stream()));
      const std::vector<T> result = Download(y, x.size());
      for (int64_t r = 0; r < rows; ++r) CheckRow(&x[at(r, elems)], &result[at(r, elems)], elems, log, tolerance);
    }
  }

  static size_t at(int64_t row, int64_t elems) { return static_cast<size_t>(row * elems); }

  template <class T>
  static void CheckRow(const T* x, const T* y, int64_t elems, bool log, double tolerance) {
    const auto value = [&](int64_t i) { return static_cast<double>(Load(x[i])); };
    double sum = 0;
    for (int64_t i = 0; i < elems; ++i) sum += std::exp(value(i) - 4.0);
    for (int64_t i = 0; i < elems; ++i) {
      const double wanted = log ? value(i) - 4.0 - std::log(sum) : std::exp(value(i) - 4.0) / sum;
      ASSERT_NEAR(static_cast<double>(Load(y[i])), wanted,
                  tolerance * std::abs(log ? std::max(1.0, -wanted) : wanted) + kHalfQuantum<T>)
          << "element " << i << (log ? " of the logarithm" : "");
    }
  }

  template <DataType type>
  void CheckAll(double tolerance) {
    using T = CppType<type>;
    constexpr int kPack = RowPack(sizeof(T)), kMost = ResidentPacks(sizeof(T));
    for (const int64_t elems : {1, 31, 100, 1000, 4096}) Check<type>(3, elems, Resident(false), tolerance);
    for (const int64_t elems : {1, 100, 9001}) Check<type>(3, elems, Long(false), tolerance);
    if constexpr (kPack > 1) {
      for (const int64_t packs : {1, 5, 32, 33, 512}) {
        Check<type>(3, packs * kPack, Resident(true, 1), tolerance);
        Check<type>(3, packs * kPack, Resident(true, kMost), tolerance);
      }
      for (const unsigned threads : {kLongThreads, kLongThreads / 2}) {
        Check<type>(2, kPack, Long(true, threads), tolerance);
        Check<type>(2, int64_t{1000} * kPack, Long(true, threads), tolerance);
        Check<type>(9, int64_t{9000} * kPack, Long(true, threads), tolerance);  // more than a block holds
      }
    }
  }
};

TEST_F(SoftmaxPlanTest, EveryVariantInFloat) { CheckAll<DataType::kFloat>(1e-5); }
TEST_F(SoftmaxPlanTest, EveryVariantInFloat16) { CheckAll<DataType::kFloat16>(0.0006); }
TEST_F(SoftmaxPlanTest, EveryVariantInBFloat16) { CheckAll<DataType::kBFloat16>(0.0045); }
TEST_F(SoftmaxPlanTest, EveryVariantInDouble) { CheckAll<DataType::kDouble>(1e-13); }

TEST_F(SoftmaxPlanTest, WhatCannotBeIsRefused) {
  const auto refusal = [&](DataType type, int64_t elems, const SoftmaxChoice& choice) {
    return PlanSoftmax(type, 3, elems, info_, choice).status();
  };
  EXPECT_FAILS(refusal(DataType::kFloat, 33, Resident(true)), kInvalidArgument, "33 elements of 4 bytes are not whole");
  EXPECT_FAILS(refusal(DataType::kDouble, 32, Long(true)), kInvalidArgument, "not whole packs");
  EXPECT_FAILS(refusal(DataType::kFloat, 4 * 513, Resident(true, 1)), kInvalidArgument, "needs 513 threads");
  EXPECT_FAILS(refusal(DataType::kFloat, 4097, Resident(false)), kInvalidArgument, "a block has 512");
  EXPECT_FAILS(refusal(DataType::kFloat, 64, Resident(true, 3)), kInvalidArgument, "no kernel has 3 packs");
  EXPECT_FAILS(refusal(DataType::kFloat, 64, Long(true, 128)), kInvalidArgument, "blocks of 128 threads");
}

TEST_F(SoftmaxPlanTest, ThePlannersOwnChoices) {
  const auto plan = [&](DataType type, int64_t rows, int64_t elems) { return PlanSoftmax(type, rows, elems, info_); };
  EXPECT_TRUE(plan(DataType::kFloat, 3, 4096).resident);
  EXPECT_FALSE(plan(DataType::kFloat, 3, 1 << 17).resident);
  EXPECT_EQ(plan(DataType::kFloat, 3, 4099).pack, 1);
  EXPECT_EQ(plan(DataType::kFloat, 3, 1 << 17).long_threads, kLongThreads);
}

}  // namespace
}  // namespace cudaep::kernels
