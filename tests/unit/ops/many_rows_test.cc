// Products of many rows by the kernel of warpgroups: every tiling on every kind of size, every 16-bit number through
// the activation, and what runs elsewhere.
#include "kernels/gemm/many_rows.h"

#include <limits>

#include "device/tensor_map.h"
#include "many_rows_fixture.h"
#include "ops/gemm/matrix_product.h"
#include "ops/gemm/short_product.h"

namespace cudaep::ops {
namespace {

constexpr WarpgroupTiles kAllTiles[] = {WarpgroupTiles::kSmall, WarpgroupTiles::kWide, WarpgroupTiles::kTurns};

class EveryRowsTest : public ManyRowsTest {
 protected:
  void CheckSizes(DataType type, WarpgroupTiles tiles, int64_t m, int64_t n, int64_t k, bool has_bias, unsigned blocks,
                  Activation activation = Activation::kGeluErf) {
    CheckProduct({.type = type, .m = m, .n = n, .k = k, .bias = has_bias, .activation = activation}, {tiles, blocks});
  }

  // gelu of each finite number of T: of rows of 8 with the unit matrix, beside columns of zeros.
  template <DataType type>
  void CheckEveryNumber(double most_ulps) {
    using T = CppType<type>;
    std::vector<double> numbers(65536), unit(32 * 8), none(32);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double x = static_cast<double>(ToFloat(T{static_cast<uint16_t>(i)}));
      numbers[i] = std::isfinite(x) ? x : 0.0;
    }
    for (size_t i = 0; i < 8; ++i) unit[i * 9] = 1;
    const ManyRowsProduct p{.type = type, .m = 8192, .n = 32, .k = 8, .activation = Activation::kGeluErf};
    const auto plan = kernels::PlanWarpgroups(p.m, p.n, WarpgroupTiles::kSmall, context_->device_info());
    const std::vector<double> c = Run(p, plan, numbers, unit, none);
    constexpr int kDigits = type == DataType::kFloat16 ? 10 : 7, kLeast = type == DataType::kFloat16 ? -14 : -126;
    double worst = 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double wanted = Gelu(numbers[i]), got = c[i / 8 * 32 + i % 8];
      const int exponent = wanted == 0 ? kLeast : std::max(std::ilogb(wanted), kLeast);
      const double off = std::abs(got - wanted) / std::ldexp(1.0, exponent - kDigits);
      if (!(off <= worst)) worst = off;
      ASSERT_LE(off, most_ulps) << "gelu(" << numbers[i] << ") is " << wanted << ", not " << got;
    }
    EXPECT_GT(worst, 0.4);  // of what is rounded
    for (size_t i = 0; i < c.size(); ++i) ASSERT_TRUE(i % 32 < 8 || c[i] == 0) << i;
  }
};

TEST_F(EveryRowsTest, EveryTilingOnEverySize) {
  for (const WarpgroupTiles tiles : kAllTiles) {
    CheckSizes(DataType::kFloat16, tiles, 128, 192, 64, true, 1);  // whole tiles
    CheckSizes(DataType::kFloat16, tiles, 1, 32, 8, false, 1);
    CheckSizes(DataType::kFloat16, tiles, 129, 224, 72, true, 2);  // parts of tiles, and blocks with several
    CheckSizes(DataType::kBFloat16, tiles, 300, 160, 200, false, 3);
  }
  for (const unsigned blocks : {1u, 2u}) {
    CheckSizes(DataType::kFloat16, WarpgroupTiles::kTurns, 129, 224, 72, true, blocks, Activation::kNone);
    CheckSizes(DataType::kBFloat16, WarpgroupTiles::kTurns, 300, 416, 200, blocks == 1, blocks, Activation::kNone);
  }
  CheckSizes(DataType::kFloat16, WarpgroupTiles::kBroad, 128, 160, 64, true, 1, Activation::kNone);
  CheckSizes(DataType::kFloat16, WarpgroupTiles::kBroad, 1, 32, 8, false, 1, Activation::kNone);
  for (const unsigned blocks : {1u, 2u}) {
    CheckSizes(DataType::kFloat16, WarpgroupTiles::kBroad, 129, 224, 72, true, blocks, Activation::kNone);
    CheckSizes(DataType::kBFloat16, WarpgroupTiles::kBroad, 300, 320, 456, blocks == 1, blocks, Activation::kNone);
  }
  // More steps than a ring has, in turns: an odd and an even number of tiles for a block.
  for (const unsigned blocks : {1u, 2u}) {
    CheckSizes(DataType::kFloat16, WarpgroupTiles::kTurns, 260, 32, 456, true, blocks);
  }
}

TEST_F(ManyRowsTest, PointwiseWithAndWithoutAResidual) {
  for (const Activation activation : {Activation::kNone, Activation::kRelu}) {
    for (const bool residual : {false, true}) {
      const auto check = [&](DataType type, int64_t m, int64_t n, int64_t k, bool bias, unsigned blocks) {
        CheckProduct(
            {.type = type, .m = m, .n = n, .k = k, .bias = bias, .residual = residual, .activation = activation},
            {WarpgroupTiles::kSmall, blocks});
      };
      check(DataType::kFloat16, 128, 128, 64, true, 1);
      check(DataType::kFloat16, 1, 32, 8, false, 1);
      check(DataType::kBFloat16, 300, 288, 72, true, 2);  // parts of tiles, and blocks with several
      check(DataType::kFloat16, 300, 288, 72, true, 3);   // each with its column
      check(DataType::kFloat16, 700, 96, 200, true, 1);   // more stages than a ring has
    }
  }
}

// What is no number stays in its elements, beside what lies beyond the edge of a box.
TEST_F(ManyRowsTest, NaNAndInfinityStayInTheirElements) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const WarpgroupTiles tiles : {WarpgroupTiles::kSmall, WarpgroupTiles::kBroad, WarpgroupTiles::kFinest}) {
    const bool adds = tiles == WarpgroupTiles::kFinest, cuts = tiles != WarpgroupTiles::kBroad;
    const ManyRowsProduct p{
        .m = 3, .n = 160, .k = 8, .residual = adds, .activation = cuts ? Activation::kRelu : Activation::kNone};
    std::vector<double> a(3 * 8, 1), b(160 * 8, -1), residual(3 * 160, 2);
    a[8] = kInfinity;  // all of row 1: -infinity, which ReLU makes 0
    b[7 * 8] = NAN;    // column 7
    b[159 * 8] = kInfinity;
    residual[2 * 160 + 140] = NAN;
    residual[2 * 160 + 141] = kInfinity;
    const auto c = Run(p, {tiles, cuts ? 2u : 1u}, a, b, std::vector<double>(160), residual);
    for (size_t row = 0; row < 3; ++row) {
      for (size_t column = 0; column < 160; ++column) {
        const double got = c[row * 160 + column];
        SCOPED_TRACE(::testing::Message() << row << ", " << column << " tiles " << static_cast<int>(tiles));
        if (column == 7 || (adds && row == 2 && column == 140)) {
          EXPECT_TRUE(std::isnan(got)) << got;
        } else {
          const bool infinite = column == 159 || (adds && row == 2 && column == 141);
          EXPECT_EQ(got, infinite ? kInfinity : cuts ? 0.0 : row == 1 ? -kInfinity : -8.0);
        }
      }
    }
  }
}

TEST_F(EveryRowsTest, EveryNumberThroughTheActivation) {
  CheckEveryNumber<DataType::kFloat16>(0.7);
  CheckEveryNumber<DataType::kBFloat16>(0.7);
}

TEST_F(ManyRowsTest, RefusesOtherTilesAndSizes) {
  void* const memory = Upload(DataType::kFloat16, std::vector<double>(4096));
  const kernels::ManyRowsPointers at{.a = memory, .b = memory, .c = memory};
  const auto code = [&](const ManyRowsProduct& p, WarpgroupTiles tiles) {
    return kernels::LaunchManyRows(p, {tiles, 1}, at, context_->stream()).code();
  };
  for (const WarpgroupTiles tiles : {WarpgroupTiles::kWide, WarpgroupTiles::kFine, WarpgroupTiles::kTall}) {
    EXPECT_EQ(code({.m = 32, .n = 32, .k = 8}, tiles), StatusCode::kInvalidArgument) << static_cast<int>(tiles);
  }
  for (const WarpgroupTiles tiles : {WarpgroupTiles::kBroad, WarpgroupTiles::kTurns}) {
    EXPECT_EQ(code({.m = 32, .n = 32, .k = 8, .residual = true}, tiles), StatusCode::kInvalidArgument);
    EXPECT_EQ(code({.m = 32, .n = 32, .k = 8, .activation = Activation::kRelu}, tiles), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(code({.m = 32, .n = 32, .k = 8, .activation = Activation::kGeluErf}, WarpgroupTiles::kBroad),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.m = 32, .n = 32, .k = 8, .activation = Activation::kSilu}, WarpgroupTiles::kSmall),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(
      code({.m = 32, .n = 32, .k = 8, .residual = true, .activation = Activation::kGeluErf}, WarpgroupTiles::kSmall),
      StatusCode::kInvalidArgument);
  for (const WarpgroupTiles tiles : {WarpgroupTiles::kFinest, WarpgroupTiles::kFlat}) {
    EXPECT_EQ(code({.m = 32, .n = 32, .k = 8, .residual = true, .activation = Activation::kGeluErf}, tiles),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(code({.m = 32, .n = 32, .k = 8, .activation = Activation::kSilu}, tiles), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(
      kernels::LaunchManyRows({.m = 64, .n = 128, .k = 128}, {WarpgroupTiles::kFlat, 2, 2}, at, context_->stream())
          .code(),
      StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.m = 32, .n = 40, .k = 8, .activation = Activation::kGeluErf}, WarpgroupTiles::kSmall),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.m = 32, .n = 32, .k = 12, .activation = Activation::kGeluErf}, WarpgroupTiles::kSmall),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.type = DataType::kFloat, .m = 32, .n = 32, .k = 8}, WarpgroupTiles::kTurns),
            StatusCode::kNotSupported);
}

// On every device, before a kernel is launched.
TEST_F(ManyRowsTest, MapsOfMatrices) {
  const auto* const matrix = static_cast<const std::byte*>(Allocate(size_t{64} * 64 * 2 + 16));
  const auto code = [&](int64_t rows, int64_t columns, unsigned box_rows, int side_by_side, int64_t offset = 0) {
    device::TensorMap map;
    return device::MakeTensorMap(matrix + offset, rows, columns, box_rows, &map, side_by_side).code();
  };
  EXPECT_EQ(code(64, 64, 32, 2), StatusCode::kOk);
  EXPECT_EQ(code(64, 64, 32, 8), StatusCode::kOk);
  EXPECT_EQ(code(160, 64, 160, 8), StatusCode::kOk);
  EXPECT_EQ(code(40, 64, 24, 2), StatusCode::kOk);
  for (const auto& [rows, columns, box_rows, side_by_side] : {std::tuple{40, 64, 32, 8},
                                                              {64, 64, 24, 8},
                                                              {64, 64, 32, 0},
                                                              {64, 64, 32, 4},
                                                              {64, 60, 32, 2},
                                                              {0, 64, 32, 2},
                                                              {64, 64, 0, 2},
                                                              {64, 64, 257, 2}}) {
    EXPECT_EQ(code(rows, columns, static_cast<unsigned>(box_rows), side_by_side), StatusCode::kInvalidArgument)
        << rows << ' ' << columns << ' ' << box_rows << ' ' << side_by_side;
  }
  EXPECT_EQ(code(32, 64, 32, 2, 8), StatusCode::kInvalidArgument);
}

TEST_F(ManyRowsTest, InfinitiesAndNanStayInTheirRows) {
  const double inf = std::numeric_limits<double>::infinity();
  ManyRowsProduct p{.m = 300, .n = 64, .k = 8, .activation = Activation::kGeluErf};
  std::vector<double> a(static_cast<size_t>(p.m * p.k), 0.125), b(static_cast<size_t>(p.n * p.k), 1.0);
  a[3 * 8] = inf, a[130 * 8 + 7] = -inf, a[299 * 8 + 2] = NAN;
  for (const WarpgroupTiles tiles : {WarpgroupTiles::kFinest, WarpgroupTiles::kFlat, WarpgroupTiles::kSmall,
                                     WarpgroupTiles::kWide, WarpgroupTiles::kTurns}) {
    p.type =
        tiles == WarpgroupTiles::kWide || tiles == WarpgroupTiles::kFlat ? DataType::kBFloat16 : DataType::kFloat16;
    const std::vector<double> c = Run(p, {tiles, 1}, a, b, std::vector<double>(64));
    for (int64_t i = 0; i < p.m * p.n; ++i) {
      const double got = c[static_cast<size_t>(i)];
      if (i / p.n == 3) {
        ASSERT_EQ(got, inf);
      } else if (i / p.n == 130 || i / p.n == 299) {  // -inf * 0, as by the formula
        ASSERT_TRUE(std::isnan(got)) << i;
      } else {
        ASSERT_NEAR(got, Gelu(1.0), 4e-3) << i;
      }
    }
  }
}

class RowsOfOperatorsTest : public ManyRowsTest {
 protected:
  // What the product of operators comes to, its tensors `shift` elements behind aligned addresses.
  void CheckOperators(const MatrixProduct& product, int64_t rows, const blas::GemmProblem& p, size_t shift) {
    const auto upload = [&](std::vector<double> values) {
      values.insert(values.begin(), shift, 0.0);
      return static_cast<std::byte*>(Upload(DataType::kFloat16, values)) + 2 * shift;
    };
    const std::vector<double> a = TestValues(rows * p.k, 1), b = TestValues(p.n * p.k, 2), bias = TestValues(p.n, 3),
                              residual = TestValues(rows * p.n, 4);
    const blas::GemmPointers at{.a = upload(a),
                                .b = Upload(DataType::kFloat16, b),
                                .c = upload(std::vector<double>(residual.size(), NAN)),
                                .bias = upload(bias),
                                .residual = upload(residual),
                                .workspace = context_->workspace().Reserve(product.workspace_bytes()).value()};
    Check(product.Enqueue(*context_, at));
    const std::vector<double> c = Download(DataType::kFloat16, at.c, rows * p.n);
    for (int64_t i = 0; i < rows * p.n; ++i) {
      const int64_t row = i / p.n, column = i % p.n;
      double sum = bias[static_cast<size_t>(column)] + (p.epilogue.residual() ? residual[static_cast<size_t>(i)] : 0);
      for (int64_t j = 0; j < p.k; ++j) {
        sum += a[static_cast<size_t>(row * p.k + j)] * b[static_cast<size_t>(column * p.k + j)];
      }
      ASSERT_NEAR(c[static_cast<size_t>(i)], Activated(p.epilogue.activation, sum), 2e-3 * std::max(1.0, std::abs(sum)))
          << "shift " << shift << " row " << row << " column " << column;
    }
  }
};

// By the product of operators: the kernel where it is planned, the library with a finisher where tensors lie otherwise.
TEST_F(RowsOfOperatorsTest, ProductsOfOperatorsRunByIt) {
  device::DeviceInfo info = context_->device_info();
  const int64_t n = 128 * std::max(info.multiprocessors / 3, 1), m = 3 * 128, k = 16;  // one tile each
  blas::GemmProblem p{.types = lib::MixedTypes::Of(DataType::kFloat16),
                      .m = m,
                      .n = n,
                      .k = k,
                      .transpose_b = true,
                      .lda = k,
                      .ldb = k,
                      .ldc = n,
                      .epilogue = {.bias = true, .activation = Activation::kGeluErf}};
  const Settings settings;
  ProductOptions options(settings);
  options.constant_b = options.may_be_short = true;
  const auto made = [&](const blas::GemmProblem& problem) {
    auto product = MatrixProduct::Make(*context_, problem, options);
    EXPECT_TRUE(product.ok()) << product.status().ToString();
    return std::move(product).value();
  };
  const MatrixProduct product = made(p);
  EXPECT_TRUE(product.has_many_rows_kernel());
  for (const size_t shift : {size_t{0}, size_t{1}}) CheckOperators(product, m, p, shift);
  // Few tiles of 64 rows, which no engine is compiled for.
  blas::GemmProblem flat = p;
  flat.m = 40, flat.n = flat.ldc = 64, flat.epilogue.activation = Activation::kRelu, flat.epilogue.beta = 1;
  const MatrixProduct few_tiles = made(flat);
  EXPECT_TRUE(few_tiles.has_many_rows_kernel());
  EXPECT_EQ(few_tiles.convolution(), nullptr);
  for (const size_t shift : {size_t{0}, size_t{1}}) {
    for (const int64_t rows : {int64_t{40}, int64_t{5}, int64_t{60}}) {
      auto of_rows = few_tiles.OfRows(*context_, rows);
      CUDAEP_ASSERT_OK(of_rows.status());
      EXPECT_EQ(of_rows->has_many_rows_kernel(), rows > 16);
      CheckOperators(*of_rows, rows, flat, shift);
    }
  }
  // So many rounds of tiles in turns that the kernel is planned without an activation.
  blas::GemmProblem rounds = p;
  rounds.m = 256 * std::max(info.multiprocessors, 1), rounds.n = rounds.ldc = 192;
  for (const Activation activation : {Activation::kNone, Activation::kGeluErf, Activation::kRelu}) {
    rounds.epilogue.activation = activation;
    EXPECT_EQ(made(rounds).has_many_rows_kernel(), activation != Activation::kRelu) << static_cast<int>(activation);
  }
  rounds.epilogue.activation = Activation::kNone;
  for (auto change :
       {+[](blas::GemmProblem& q) { q.epilogue.beta = 1; }, +[](blas::GemmProblem& q) { q.epilogue.alpha = 2; }}) {
    blas::GemmProblem other = rounds;
    change(other);
    EXPECT_FALSE(made(other).has_many_rows_kernel());
  }
  // What is for engines, though its tiles, of 128 rows, fill the device.
  blas::GemmProblem few = p;
  few.m = 256, few.n = few.ldc = 128 * std::max(info.multiprocessors / 2, 1);
  EXPECT_TRUE(kernels::PlanManyRows({.m = few.m, .n = few.n, .k = few.k, .activation = Activation::kGeluErf}, info)
                  .has_value());
  EXPECT_FALSE(made(few).has_many_rows_kernel());
  options.may_be_short = false;
  EXPECT_FALSE(made(p).has_many_rows_kernel());
}

}  // namespace
}  // namespace cudaep::ops
