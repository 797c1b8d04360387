// Products of many rows by the kernel of warpgroups, run as they are told and compared with sums in double precision.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "context_fixture.h"
#include "core/data_type_traits.h"
#include "kernels/gemm/many_rows.h"

namespace cudaep::ops {

using kernels::ManyRowsProduct;
using kernels::WarpgroupTiles;

inline double Gelu(double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }

class ManyRowsTest : public ContextTest {
 protected:
  const char* Lacks(const device::DeviceInfo& device) const override {
    return kernels::TakesManyRows({.m = 1, .n = 32, .k = 8}, device) ? nullptr : "no device of 9.0";
  }

  // c, with elements behind it that must stay NaN. The residual, if there is one, lies there first, or elsewhere.
  std::vector<double> Run(const ManyRowsProduct& p, const kernels::WarpgroupPlan& plan, const std::vector<double>& a,
                          const std::vector<double>& b, const std::vector<double>& bias,
                          const std::vector<double>& residual = {}, bool in_place = true) {
    constexpr size_t kBeyond = 4096;
    std::vector<double> first = p.residual && in_place ? residual : std::vector<double>();
    first.resize(static_cast<size_t>(p.m * p.n) + kBeyond, NAN);
    void* const c = Upload(p.type, first);
    Check(kernels::LaunchManyRows(p, plan,
                                  {.a = Upload(p.type, a),
                                   .b = Upload(p.type, b),
                                   .c = c,
                                   .bias = Upload(p.type, bias),
                                   .residual = in_place || !p.residual ? c : Upload(p.type, residual)},
                                  context_->stream()));
    std::vector<double> result = Download(p.type, c, static_cast<int64_t>(first.size()));
    for (size_t i = result.size() - kBeyond; i < result.size(); ++i) EXPECT_TRUE(std::isnan(result[i])) << i;
    result.resize(result.size() - kBeyond);
    return result;
  }

  static double Activated(Activation activation, double x) {
    return activation == Activation::kGeluErf ? Gelu(x) : activation == Activation::kRelu ? std::max(x, 0.0) : x;
  }

  void CheckProduct(const ManyRowsProduct& p, const kernels::WarpgroupPlan& plan, bool in_place = true) {
    SCOPED_TRACE(::testing::Message() << DataTypeName(p.type) << " tiles " << static_cast<int>(plan.tiles) << " ["
                                      << p.m << ',' << p.n << ',' << p.k << "] bias " << p.bias << " residual "
                                      << p.residual << ", " << plan.blocks << " blocks, "
                                      << ActivationName(p.activation));
    const std::vector<double> a = TestValues(p.m * p.k, 1), b = TestValues(p.n * p.k, 2), bias = TestValues(p.n, 3),
                              residual = TestValues(p.m * p.n, 4);
    const std::vector<double> c = Run(p, plan, a, b, bias, residual, in_place);
    const auto at = [&](const std::vector<double>& values, int64_t i) { return values[static_cast<size_t>(i)]; };
    int wrong = 0;
    for (int64_t row = 0; row < p.m && wrong < 5; ++row) {
      for (int64_t column = 0; column < p.n && wrong < 5; ++column) {
        double sum = p.bias ? at(bias, column) : 0;
        if (p.residual) sum += at(residual, row * p.n + column);
        double size = std::abs(sum);
        for (int64_t i = 0; i < p.k; ++i) {
          const double term = at(a, row * p.k + i) * at(b, column * p.k + i);
          sum += term, size += std::abs(term);
        }
        const double wanted = Activated(p.activation, sum), got = at(c, row * p.n + column);
        const double tolerance = (p.type == DataType::kFloat16 ? 6e-4 : 5e-3) * std::abs(wanted) + 2e-6 * size;
        if (!(std::abs(got - wanted) <= tolerance)) {
          ++wrong;
          ADD_FAILURE() << "row " << row << ", column " << column << ": " << got << " for " << wanted;
        }
      }
    }
  }
};

}  // namespace cudaep::ops
