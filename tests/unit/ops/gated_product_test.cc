// Gated products by both kernels: every end on every kind of size, beside sums in double precision.
#include "kernels/gemm/gated_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "context_fixture.h"
#include "core/strings.h"
#include "kernels/gemm/many_rows.h"

namespace cudaep::ops {
namespace {

using kernels::GatedProduct;
using kernels::WarpgroupTiles;

class GatedProductTest : public ContextTest {
 protected:
  const char* Lacks(const device::DeviceInfo& device) const override {
    return kernels::TakesFewRows({.m = 1, .n = 8, .k = 8}, device) ? nullptr : "no tensor cores";
  }
  static double Activated(Activation activation, double x) {
    switch (activation) {
      case Activation::kSilu:
        return x / (1 + std::exp(-x));
      case Activation::kGeluErf:
        return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
      case Activation::kGeluTanh:
        return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
      default:
        return std::max(x, 0.0);
    }
  }

  // `launch` has the product and its pointers.
  template <class Launch>
  void Expect(const GatedProduct& p, const Launch& launch) {
    SCOPED_TRACE(StrCat(DataTypeName(p.type), " [", p.m, ',', p.k, "] by 2 x ", p.n, ' ', ActivationName(p.activation),
                        p.second ? " of the second half" : "", p.bias ? " with a bias" : ""));
    const auto a = TestValues(p.m * p.k, 1), b = TestValues(2 * p.n * p.k, 2), bias = TestValues(2 * p.n, 3);
    constexpr int64_t kBeyond = 4096;
    void* const c = Upload(p.type, std::vector<double>(static_cast<size_t>(p.m * p.n + kBeyond), NAN));
    Check(launch(p, kernels::GatedPointers{
                        .a = Upload(p.type, a), .b = Upload(p.type, b), .c = c, .bias = Upload(p.type, bias)}));
    const auto got = Download(p.type, c, p.m * p.n + kBeyond);
    for (size_t i = static_cast<size_t>(p.m * p.n); i < got.size(); ++i) ASSERT_TRUE(std::isnan(got[i])) << i;
    for (int64_t row = 0; row < p.m; ++row) {
      for (int64_t column = 0; column < p.n; ++column) {
        double sum[2], size[2];
        for (int half = 0; half < 2; ++half) {
          const int64_t line = half * p.n + column;
          sum[half] = p.bias ? bias[static_cast<size_t>(line)] : 0;
          size[half] = std::abs(sum[half]);
          for (int64_t i = 0; i < p.k; ++i) {
            const double term = a[static_cast<size_t>(row * p.k + i)] * b[static_cast<size_t>(line * p.k + i)];
            sum[half] += term, size[half] += std::abs(term);
          }
        }
        const int gate = p.second ? 1 : 0;
        const double wanted = Activated(p.activation, sum[gate]) * sum[1 - gate];
        const double tolerance = (p.type == DataType::kFloat16 ? 1e-3 : 8e-3) * std::abs(wanted) +
                                 2e-6 * (size[0] + 1) * (size[1] + 1) + 1e-6;
        ASSERT_NEAR(got[static_cast<size_t>(row * p.n + column)], wanted, tolerance) << row << ", " << column;
      }
    }
  }

  void ExpectFewRows(const GatedProduct& p, const kernels::FewRowsPlan& plan) {
    Expect(p, [&](const GatedProduct& product, const kernels::GatedPointers& at) {
      return kernels::LaunchGatedFewRows(product, plan, at, stream());
    });
  }
  void ExpectRows(const GatedProduct& p, const kernels::WarpgroupPlan& plan) {
    Expect(p, [&](const GatedProduct& product, const kernels::GatedPointers& at) {
      return kernels::LaunchGatedRows(product, plan, at, stream());
    });
  }
  bool Lacks9() const { return !kernels::TakesManyRows({.m = 1, .n = 32, .k = 8}, context_->device_info()); }
};

constexpr Activation kGates[] = {Activation::kSilu, Activation::kGeluErf, Activation::kGeluTanh};

TEST_F(GatedProductTest, FewRows) {
  for (const bool second : {false, true}) {
    for (const Activation activation :
         {Activation::kSilu, Activation::kGeluErf, Activation::kGeluTanh, Activation::kRelu}) {
      const auto check = [&](DataType type, int64_t m, int64_t n, int64_t k, bool bias, int splits = 1) {
        ExpectFewRows({.type = type, .m = m, .n = n, .k = k, .bias = bias, .activation = activation, .second = second},
                      {.splits = splits});
      };
      check(DataType::kFloat16, 1, 64, 128, true);
      check(DataType::kFloat16, 16, 8, 8, false);
      check(DataType::kBFloat16, 9, 72, 1032, true);  // parts of blocks, rounds of the ring
      check(DataType::kFloat16, 3, 40, 2056, false);
      if (context_->device_info().simulated) continue;  // no clusters
      check(DataType::kFloat16, 5, 72, 1032, true, 2);
      check(DataType::kBFloat16, 16, 40, 2056, true, 8);
    }
  }
}

TEST_F(GatedProductTest, ManyRows) {
  if (Lacks9()) GTEST_SKIP() << "no device of 9.0";
  for (const bool second : {false, true}) {
    for (const Activation activation : kGates) {
      for (const WarpgroupTiles tiles : {WarpgroupTiles::kFinest, WarpgroupTiles::kFlat, WarpgroupTiles::kSmall,
                                         WarpgroupTiles::kWide, WarpgroupTiles::kTurns}) {
        SCOPED_TRACE(static_cast<int>(tiles));
        const auto check = [&](DataType type, int64_t m, int64_t n, int64_t k, bool bias, unsigned blocks) {
          ExpectRows({.type = type,
                      .m = m,
                      .n = n,
                      .k = k,
                      .bias = bias,
                      .activation = activation,
                      .second = second,
                      .constant_b = k > 100,
                      .constant_bias = k > 500},
                     {tiles, blocks});
        };
        check(DataType::kFloat16, 128, 96, 64, true, 1);  // whole tiles
        check(DataType::kFloat16, 1, 32, 8, false, 1);
        check(DataType::kBFloat16, 131, 160, 200, true, 2);  // parts of tiles, and blocks with several
        check(DataType::kFloat16, 70, 64, 1000, true, 1);    // rounds of the ring
        if (tiles != WarpgroupTiles::kFinest) continue;
        ExpectRows({.m = 33, .n = 96, .k = 840, .activation = activation, .second = second, .constant_b = true},
                   {tiles, 2, 1, 2});  // half of a ring
      }
    }
  }
}

// What is infinite before the gate is so behind it, as one by one.
TEST_F(GatedProductTest, InfinityStays) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const bool few : {false, true}) {
    if (!few && Lacks9()) continue;
    for (const Activation activation : kGates) {
      const GatedProduct p{.m = 2, .n = 32, .k = 8, .activation = activation};
      std::vector<double> a(16), b(64 * 8);
      a[0] = kInfinity, a[8] = 1;
      for (size_t line = 0; line < 64; ++line) b[line * 8] = 1;
      void* const c = Upload(p.type, std::vector<double>(64, NAN));
      const kernels::GatedPointers at{.a = Upload(p.type, a), .b = Upload(p.type, b), .c = c};
      Check(few ? kernels::LaunchGatedFewRows(p, {}, at, stream())
                : kernels::LaunchGatedRows(p, {WarpgroupTiles::kFinest, 1}, at, stream()));
      const auto got = Download(p.type, c, 64);
      for (size_t i = 0; i < 64; ++i) {
        ASSERT_TRUE(i < 32 ? got[i] == kInfinity : got[i] > 0.5 && got[i] < 1)
            << got[i] << " at " << i << ' ' << ActivationName(activation) << (few ? " few" : "");
      }
    }
  }
}

TEST_F(GatedProductTest, WhatNoKernelTakesIsRefused) {
  const auto rows = [&](const GatedProduct& p, const kernels::WarpgroupPlan& plan) {
    return kernels::LaunchGatedRows(p, plan, {}, stream()).code();
  };
  const GatedProduct p{.m = 64, .n = 32, .k = 8};
  GatedProduct other = p;
  other.activation = Activation::kRelu;
  EXPECT_EQ(rows(other, {WarpgroupTiles::kFinest, 1}), StatusCode::kInvalidArgument);
  other = p, other.n = 24;
  EXPECT_EQ(rows(other, {WarpgroupTiles::kFinest, 1}), StatusCode::kInvalidArgument);
  other = p, other.type = DataType::kFloat;
  EXPECT_EQ(rows(other, {WarpgroupTiles::kFinest, 1}), StatusCode::kNotSupported);
  EXPECT_EQ(rows(p, {WarpgroupTiles::kBroad, 1}), StatusCode::kInvalidArgument);
  EXPECT_EQ(rows(p, {WarpgroupTiles::kFinest, 1, 1, 3}), StatusCode::kInvalidArgument);
  EXPECT_EQ(rows(p, {WarpgroupTiles::kWide, 1, 1, 2}), StatusCode::kInvalidArgument);
  EXPECT_EQ(rows(p, {WarpgroupTiles::kFinest, 2, 2}), StatusCode::kInvalidArgument);
  EXPECT_EQ(kernels::LaunchGatedFewRows(p, {.columns = 8}, {}, stream()).code(), StatusCode::kInvalidArgument);
  other = p, other.m = 0;
  EXPECT_EQ(rows(other, {WarpgroupTiles::kFinest, 1}), StatusCode::kOk);
}

// As a GPU of 132 multiprocessors has them.
TEST(GatedPlanTest, TilesByRows) {
  device::DeviceInfo device;
  device.major = 9, device.multiprocessors = 132, device.shared_bytes_per_block = 227 << 10;
  const auto plan = [&](int64_t m, int64_t n, int64_t k, Activation activation = Activation::kSilu) {
    return kernels::PlanGatedRows({.m = m, .n = n, .k = k, .activation = activation, .constant_b = true}, device);
  };
  const auto small = plan(128, 1152, 768);
  ASSERT_TRUE(small.has_value());
  EXPECT_EQ(small->tiles, WarpgroupTiles::kFinest);
  EXPECT_EQ(small->blocks, 72u);
  EXPECT_EQ(small->splits, 1);
  EXPECT_EQ(plan(32, 256, 768)->splits, 1);  // a product without a gate is split then
  EXPECT_FALSE(plan(128, 512, 4096));        // and may be as deep
  const auto streamed = plan(32, 8192, 2048);
  ASSERT_TRUE(streamed.has_value());
  EXPECT_EQ(streamed->blocks, 256u);
  EXPECT_EQ(streamed->ring_parts, 2);
  EXPECT_FALSE(plan(32, 1024, 8192));  // by too few blocks
  EXPECT_EQ(plan(256, 4224, 768)->tiles, WarpgroupTiles::kSmall);
  EXPECT_EQ(plan(4096, 1152, 768)->tiles, WarpgroupTiles::kTurns);
  EXPECT_FALSE(plan(4096, 1152, 768, Activation::kTanh));
  EXPECT_FALSE(plan(128, 1160, 768));
  EXPECT_FALSE(plan(4096, 1152, 4096));  // deep
  const auto few = [&](int64_t n, int64_t k, bool constant = true) {
    return kernels::PlanGatedFewRows({.m = 8, .n = n, .k = k, .constant_b = constant}, device);
  };
  EXPECT_EQ(few(8192, 2048)->columns, kernels::kStagedColumns);
  EXPECT_EQ(few(8192, 2048)->splits, 1);
  EXPECT_EQ(few(1024, 4096)->splits, 4);
  EXPECT_FALSE(few(1024, 2048));  // narrow
  EXPECT_FALSE(few(8192, 2048, false));
  EXPECT_FALSE(few(8196, 2048));
}

}  // namespace
}  // namespace cudaep::ops
