// Products whose rows are kept for a normalisation, and those that read such rows, against double precision.
#include "kernels/gemm/normed_rows.h"

#include <optional>

#include "core/shape.h"
#include "kernels/movement/transpose.h"
#include "many_rows_fixture.h"

namespace cudaep::ops {
namespace {

using kernels::KeptNorm;
using kernels::kMomentElems;

struct Rows {
  std::vector<double> y, normalised;  // [m, width]
  std::vector<double> gamma, beta;
  KeptNorm norm;
  std::vector<double> u;  // as it is kept
  std::vector<float> moments;
};

class NormedRowsTest : public ManyRowsTest {
 protected:
  static double At(const std::vector<double>& values, int64_t i) { return values[static_cast<size_t>(i)]; }

  // Rows of a mean and a deviation, and what keeps them.
  static Rows MakeRows(int64_t m, int64_t width, double mean, double deviation, int seed) {
    Rows rows;
    rows.norm = {.epsilon = 1e-5f, .scale = 2};
    rows.y = TestValues(m * width, seed), rows.gamma = TestValues(width, seed + 1),
    rows.beta = TestValues(width, seed + 2);
    for (size_t i = 0; i < rows.y.size(); ++i)
      rows.y[i] = mean * (1 + static_cast<double>(i / width)) + deviation * rows.y[i];
    for (double& each : rows.gamma) each = 1.25 + each / 4;
    Normalise(rows, m, width);
    for (size_t i = 0; i < rows.y.size(); ++i) rows.u.push_back(rows.y[i] * rows.gamma[i % width] / 2);
    for (size_t i = 0; i < rows.y.size(); i += kMomentElems) {
      const auto [part_mean, part_variance] = MomentsOf(rows.y, static_cast<int64_t>(i), kMomentElems);
      rows.moments.push_back(static_cast<float>(part_mean)), rows.moments.push_back(static_cast<float>(part_variance));
    }
    return rows;
  }

  static std::pair<double, double> MomentsOf(const std::vector<double>& y, int64_t first, int64_t count) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < count; ++i) mean += At(y, first + i) / static_cast<double>(count);
    for (int64_t i = 0; i < count; ++i) variance += std::pow(At(y, first + i) - mean, 2) / static_cast<double>(count);
    return {mean, variance};
  }

  static void Normalise(Rows& rows, int64_t m, int64_t width) {
    rows.normalised.clear();
    for (int64_t row = 0; row < m; ++row) {
      const auto [mean, variance] = MomentsOf(rows.y, row * width, width);
      const double deviation = std::sqrt(variance + static_cast<double>(rows.norm.epsilon));
      for (int64_t i = 0; i < width; ++i) {
        rows.normalised.push_back((At(rows.y, row * width + i) - mean) / deviation * At(rows.gamma, i) +
                                  At(rows.beta, i));
      }
    }
  }

  // [m, n], each with the size of what it is the sum of.
  struct Sum {
    double value = 0, size = 0;
  };
  static Sum Product(const std::vector<double>& a, const std::vector<double>& b, int64_t k, int64_t row,
                     int64_t column) {
    Sum sum;
    for (int64_t i = 0; i < k; ++i) {
      const double term = At(a, row * k + i) * At(b, column * k + i);
      sum.value += term, sum.size += std::abs(term);
    }
    return sum;
  }

  void* UploadFloats(const std::vector<float>& values) {
    return Upload(DataType::kFloat, std::vector<double>(values.begin(), values.end()));
  }

  void ExpectRows(const std::vector<double>& got, const std::vector<double>& wanted,
                  const std::vector<double>& allowed) {
    int wrong = 0;
    for (size_t i = 0; i < wanted.size() && wrong < 5; ++i) {
      if (std::abs(got[i] - wanted[i]) <= allowed[i]) continue;
      ++wrong;
      ADD_FAILURE() << i << ": " << got[i] << " for " << wanted[i] << " within " << allowed[i];
    }
  }

  static double Unit(DataType type) { return type == DataType::kFloat16 ? 0x1p-11 : 0x1p-8; }

  void CheckNormed(DataType type, int64_t m, int64_t n, int64_t k, Activation activation, double mean,
                   const kernels::WarpgroupPlan& plan) {
    SCOPED_TRACE(::testing::Message() << DataTypeName(type) << " [" << m << ',' << n << ',' << k << "] "
                                      << ActivationName(activation) << " mean " << mean << " tiles "
                                      << static_cast<int>(plan.tiles));
    const Rows rows = MakeRows(m, k, mean, 1, 1);
    const std::vector<double> b = TestValues(n * k, 5), bias = TestValues(n, 6);
    std::vector<double> columns;
    for (int64_t j = 0; j < n; ++j) columns.push_back(Product(rows.gamma, b, k, 0, j).value);
    for (int64_t j = 0; j < n; ++j) columns.push_back(At(bias, j) + Product(rows.beta, b, k, 0, j).value);
    void* const c = Upload(type, std::vector<double>(static_cast<size_t>(m * n), NAN));
    Check(kernels::LaunchNormedRows(
        {.type = type, .m = m, .n = n, .k = k, .activation = activation, .norm = rows.norm, .constant_b = m % 2 == 0},
        plan,
        {.u = Upload(type, rows.u),
         .moments = static_cast<const float*>(UploadFloats(rows.moments)),
         .b = Upload(type, b),
         .columns = static_cast<const float*>(Upload(DataType::kFloat, columns)),
         .c = c},
        context_->stream()));
    std::vector<double> wanted, allowed;
    for (int64_t i = 0; i < m * n; ++i) {
      const Sum sum = Product(rows.normalised, b, k, i / n, i % n);
      const double size = Product(rows.y, b, k, i / n, i % n).size + sum.size;
      wanted.push_back(Activated(activation, sum.value + At(bias, i % n)));
      // What rounds is each element of u, at random.
      allowed.push_back(Unit(type) * (std::abs(wanted.back()) + 6 * size / std::sqrt(static_cast<double>(k))) +
                        1e-6 * size);
    }
    ExpectRows(Download(type, c, m * n), wanted, allowed);
  }

  void CheckToNorm(DataType type, int64_t m, int64_t n, int64_t k, bool kept, double mean,
                   const kernels::WarpgroupPlan& plan) {
    SCOPED_TRACE(::testing::Message() << DataTypeName(type) << " [" << m << ',' << n << ',' << k << "] kept " << kept
                                      << " mean " << mean << " tiles " << static_cast<int>(plan.tiles));
    const Rows residual = MakeRows(m, n, mean, 1, 1);
    const std::vector<double> a = TestValues(m * k, 4), b = TestValues(n * k, 5), bias = TestValues(n, 6),
                              factor = TestValues(n, 7);
    std::vector<double> columns = bias;
    columns.insert(columns.end(), factor.begin(), factor.end());
    columns.insert(columns.end(), residual.gamma.begin(), residual.gamma.end());
    columns.insert(columns.end(), residual.beta.begin(), residual.beta.end());
    const std::vector<double> none(static_cast<size_t>(m * n), NAN);
    for (const bool both : {true, false}) {
      void *const u = Upload(type, none), *const y = Upload(type, none),
                  *const moments = Upload(DataType::kFloat, std::vector<double>(residual.moments.size(), NAN));
      kernels::RowsToNormProduct product{.type = type, .m = m, .n = n, .k = k, .residual = {}, .constant_b = both};
      if (kept) product.residual = residual.norm;
      Check(kernels::LaunchRowsToNorm(product, plan,
                                      {.a = Upload(type, a),
                                       .b = Upload(type, b),
                                       .columns = static_cast<const float*>(Upload(DataType::kFloat, columns)),
                                       .residual = Upload(type, kept ? residual.u : residual.y),
                                       .residual_moments = static_cast<const float*>(UploadFloats(residual.moments)),
                                       .u = u,
                                       .moments = static_cast<float*>(moments),
                                       .y = both ? y : nullptr},
                                      context_->stream()));
      std::vector<double> wanted, allowed;
      for (int64_t i = 0; i < m * n; ++i) {
        const Sum sum = Product(a, b, k, i / n, i % n);
        wanted.push_back(sum.value + At(bias, i % n) + At(kept ? residual.normalised : residual.y, i));
        allowed.push_back(Unit(type) * (std::abs(wanted.back()) + 2 * std::abs(At(residual.y, i))) + 2e-6 * sum.size +
                          1e-5);
      }
      if (both) ExpectRows(Download(type, y, m * n), wanted, allowed);
      std::vector<double> wanted_u = wanted, allowed_u = allowed, wanted_moments, allowed_moments;
      for (size_t i = 0; i < wanted.size(); ++i) {
        wanted_u[i] *= factor[i % static_cast<size_t>(n)],
            allowed_u[i] *= 1 + std::abs(factor[i % static_cast<size_t>(n)]);
      }
      ExpectRows(Download(type, u, m * n), wanted_u, allowed_u);
      for (int64_t i = 0; i < m * n; i += kMomentElems) {
        const auto [part_mean, part_variance] = MomentsOf(wanted, i, kMomentElems);
        const double most = *std::max_element(allowed.begin() + i, allowed.begin() + i + kMomentElems);
        wanted_moments.insert(wanted_moments.end(), {part_mean, part_variance});
        allowed_moments.insert(allowed_moments.end(), {most, 1e-5 + 4 * most * std::sqrt(part_variance)});
      }
      ExpectRows(Download(DataType::kFloat, moments, static_cast<int64_t>(wanted_moments.size())), wanted_moments,
                 allowed_moments);
    }
  }
};

constexpr kernels::WarpgroupPlan kFinest{WarpgroupTiles::kFinest, 1}, kFlat{WarpgroupTiles::kFlat, 1},
    kHalfRing{WarpgroupTiles::kFinest, 1, 1, 2};

TEST_F(NormedRowsTest, ProductsOfRowsThatAreKept) {
  for (const kernels::WarpgroupPlan& plan : {kFinest, kFlat, kHalfRing}) {
    for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGeluErf}) {
      CheckNormed(DataType::kFloat16, 64, 64, 64, activation, 0, plan);
      CheckNormed(DataType::kBFloat16, 67, 160, 320, activation, 0.5, plan);
      CheckNormed(DataType::kFloat16, 1, 32, 64, activation, 3, plan);
      CheckNormed(DataType::kFloat16, 130, 96, 1216, activation, 8, plan);
    }
  }
}

TEST_F(NormedRowsTest, ProductsWhoseRowsAreKept) {
  for (const kernels::WarpgroupPlan& plan : {kFinest, kFlat, kHalfRing}) {
    for (const bool kept : {false, true}) {
      CheckToNorm(DataType::kFloat16, 64, 64, 64, kept, 0, plan);
      CheckToNorm(DataType::kBFloat16, 67, 192, 72, kept, 0.5, plan);
      CheckToNorm(DataType::kFloat16, 1, 64, 8, kept, 3, plan);
      CheckToNorm(DataType::kFloat16, 130, 1216, 96, kept, 8, plan);
    }
  }
}

TEST_F(NormedRowsTest, TilesInClusters) {
  if (context_->device_info().simulated) GTEST_SKIP() << "no clusters";
  for (const int splits : {2, 4}) {
    const auto of = [&](int64_t tiles) {
      return kernels::WarpgroupPlan{WarpgroupTiles::kFinest, static_cast<unsigned>(tiles * splits), splits};
    };
    CheckNormed(DataType::kFloat16, 130, 96, 1216, Activation::kGeluErf, 1, of(6));
    CheckToNorm(DataType::kFloat16, 130, 768, 1160, true, 1, of(36));
    CheckToNorm(DataType::kBFloat16, 65, 192, 840, false, 1, of(6));
  }
}

// Numbers that are none spoil their row, as they do a normalisation, and no other.
TEST_F(NormedRowsTest, NumbersThatAreNone) {
  constexpr int64_t kRows = 4, kSize = 64;
  Rows rows = MakeRows(kRows, kSize, 0, 1, 1);
  const double values[] = {NAN, INFINITY, -INFINITY};
  for (size_t row = 0; row < 3; ++row) {
    rows.u[row * kSize + 33] = values[row];
    rows.moments[(row * 2 + 1) * 2] = rows.moments[(row * 2 + 1) * 2 + 1] = NAN;
  }
  void* const c = Upload(DataType::kFloat16, std::vector<double>(kRows * kSize));
  Check(kernels::LaunchNormedRows(
      {.m = kRows, .n = kSize, .k = kSize, .norm = rows.norm}, kFinest,
      {.u = Upload(DataType::kFloat16, rows.u),
       .moments = static_cast<const float*>(UploadFloats(rows.moments)),
       .b = Upload(DataType::kFloat16, TestValues(kSize * kSize, 5)),
       .columns = static_cast<const float*>(Upload(DataType::kFloat, std::vector<double>(kSize * 2, 0.5))),
       .c = c},
      context_->stream()));
  const std::vector<double> got = Download(DataType::kFloat16, c, kRows * kSize);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i / kSize < 3) << i;
}

// An infinite sum makes no moments, in its part of its row alone.
TEST_F(NormedRowsTest, MomentsOfWhatIsNotFinite) {
  constexpr int64_t kRows = 3, kSize = 128;
  std::vector<double> residual = TestValues(kRows * kSize, 1);
  residual[kSize + 40] = INFINITY;
  void* const moments = Upload(DataType::kFloat, std::vector<double>(kRows * kSize / 16, -1));
  Check(kernels::LaunchRowsToNorm(
      {.m = kRows, .n = kSize, .k = 64, .residual = {}}, kFinest,
      {.a = Upload(DataType::kFloat16, TestValues(kRows * 64, 2)),
       .b = Upload(DataType::kFloat16, TestValues(kSize * 64, 3)),
       .columns = static_cast<const float*>(Upload(DataType::kFloat, std::vector<double>(kSize * 2, 1))),
       .residual = Upload(DataType::kFloat16, residual),
       .u = Upload(DataType::kFloat16, std::vector<double>(residual.size())),
       .moments = static_cast<float*>(moments)},
      context_->stream()));
  const std::vector<double> got = Download(DataType::kFloat, moments, kRows * kSize / 16);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isfinite(got[i]), i / 2 != (kSize + 40) / 32) << i;
}

// Of boxes that are asked for ahead none is of weights that the kernel in front writes.
TEST_F(NormedRowsTest, WeightsThatTheKernelInFrontWrites) {
  constexpr int64_t kSize = 64;
  const Rows rows = MakeRows(kSize, kSize, 0, 1, 1);
  const std::vector<double> b = TestValues(kSize * kSize, 2), none(b.size()), residual = TestValues(b.size(), 3);
  auto transpose = kernels::PlanTranspose(Shape{kSize, kSize}, Shape{1, 0}, 2);
  CUDAEP_ASSERT_OK(transpose.status());
  const auto* const columns = static_cast<const float*>(Upload(DataType::kFloat, std::vector<double>(kSize * 2, 0.5)));
  for (const kernels::WarpgroupPlan& plan : {kFinest, kFlat}) {
    for (const bool normed : {true, false}) {
      std::vector<double> results[2];
      for (const bool ahead : {true, false}) {  // the weights are there, or are turned in front
        void *const c = Upload(DataType::kFloat16, none), *const to = Upload(DataType::kFloat16, none);
        const void* const from = Upload(DataType::kFloat16, b);
        const void* const a = Upload(DataType::kFloat16, rows.u);
        const void* const moments = UploadFloats(rows.moments);
        const void* const added = Upload(DataType::kFloat16, residual);
        Check(kernels::LaunchTranspose(*transpose, from, to, context_->stream()));
        if (ahead) Check(device::StreamSynchronize(context_->stream()));
        if (normed) {
          Check(kernels::LaunchNormedRows(
              {.m = kSize, .n = kSize, .k = kSize, .norm = rows.norm, .constant_b = ahead}, plan,
              {.u = a, .moments = static_cast<const float*>(moments), .b = to, .columns = columns, .c = c},
              context_->stream()));
        } else {
          Check(kernels::LaunchRowsToNorm({.m = kSize, .n = kSize, .k = kSize, .residual = {}, .constant_b = ahead},
                                          plan, {.a = a, .b = to, .columns = columns, .residual = added, .y = c},
                                          context_->stream()));
        }
        results[ahead ? 0 : 1] = Download(DataType::kFloat16, c, kSize * kSize);
      }
      EXPECT_EQ(results[0], results[1]) << static_cast<int>(plan.tiles) << ' ' << normed;
      EXPECT_NE(results[0], none);
    }
  }
}

TEST_F(NormedRowsTest, WhatTheyDoNotTakeIsRefused) {
  const auto normed = [&](DataType type, int64_t n, int64_t k, WarpgroupTiles tiles, Activation activation) {
    return kernels::LaunchNormedRows({.type = type, .m = 1, .n = n, .k = k, .activation = activation}, {tiles, 1}, {},
                                     context_->stream())
        .code();
  };
  EXPECT_EQ(normed(DataType::kFloat, 32, 64, WarpgroupTiles::kFinest, Activation::kNone), StatusCode::kNotSupported);
  EXPECT_EQ(normed(DataType::kFloat16, 33, 64, WarpgroupTiles::kFinest, Activation::kNone),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(normed(DataType::kFloat16, 32, 32, WarpgroupTiles::kFinest, Activation::kNone),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(normed(DataType::kFloat16, 32, 64, WarpgroupTiles::kSmall, Activation::kNone),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(normed(DataType::kFloat16, 32, 64, WarpgroupTiles::kFlat, Activation::kTanh), StatusCode::kInvalidArgument);
  EXPECT_EQ(kernels::LaunchRowsToNorm({.m = 1, .n = 64, .k = 8}, kFinest, {}, context_->stream()).code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cudaep::ops
