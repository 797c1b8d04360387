#include "kernels/reduce/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "../device/device_fixture.h"
#include "core/data_type_traits.h"
#include "core/shape.h"

namespace cudaep::kernels {
namespace {

constexpr int kProcessors = 8;

class ReduceKernelTest : public device::testing::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    tickets_ = Upload(std::vector<unsigned>(kReduceTickets, 0u));
  }

  // Reduces axis `axis` of x, whose last dimension is contiguous.
  template <class Result, DataType type, class T>
  std::vector<Result> Reduce(ReduceOp op, const std::vector<T>& x, Dims dims, int axis, bool last, int splits,
                             bool packed = true, QLinearMean mean = {}) {
    bool reduced[3] = {};
    reduced[axis] = true;
    const auto plan = PlanReduce(dims, std::span(reduced, dims.size()), op, type, kProcessors, packed, splits);
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    EXPECT_EQ(plan.value().splits, splits);
    Result* const y = Allocate<Result>(static_cast<size_t>(plan.value().outputs));
    void* const workspace = Allocate<char>(plan.value().workspace_bytes + 1);
    EXPECT_OK(FindReduceKernel(op, type)({.op = op,
                                          .x = Upload(x),
                                          .y = y,
                                          .workspace = workspace,
                                          .tickets = tickets_,
                                          .last = last,
                                          .mean = mean,
                                          .plan = &plan.value()},
                                         stream()));
    return Download(y, static_cast<size_t>(plan.value().outputs));
  }

  unsigned* tickets_ = nullptr;
};

// numpy: NaN is the extremum, the first of equals (or the last) is the one.
template <class C>
int64_t Position(const std::vector<C>& row, bool maximum, bool last) {
  size_t best = 0;
  for (size_t i = 1; i < row.size(); ++i) {
    const bool nan = row[i] != row[i], best_nan = row[best] != row[best];
    const bool better = !best_nan && (nan || (maximum ? row[i] > row[best] : row[i] < row[best]));
    if (better || (last && (row[i] == row[best] || (nan && best_nan)))) best = i;
  }
  return static_cast<int64_t>(best);
}

struct Layout {
  int outer, elems, inner;
};

template <DataType type>
void CheckPositions(auto reduce, const Layout& layout) {
  using T = CppType<type>;
  using C = ComputeType<T>;
  constexpr bool kFloat = std::is_floating_point_v<C>;
  const auto [outer, elems, inner] = layout;
  std::vector<T> x(static_cast<size_t>(outer * elems * inner));
  uint32_t state = 12345;
  for (T& value : x) {
    state = state * 1664525u + 1013904223u;
    value = Store<T>(static_cast<C>(state >> 24 & 7));  // few values, so many are equal
  }
  if constexpr (kFloat) {  // a row with NaNs, one that is all -infinity
    const size_t row = static_cast<size_t>(elems), step = static_cast<size_t>(inner);
    if (elems > 2) x[step] = x[2 * step] = Store<T>(std::numeric_limits<C>::quiet_NaN());
    if (outer * inner > 1) {
      const size_t from = inner > 1 ? 1 : row;
      for (size_t i = 0; i < row; ++i) x[from + i * step] = Store<T>(-std::numeric_limits<C>::infinity());
    }
  } else {
    for (size_t i = 0; i < static_cast<size_t>(elems); ++i) {
      x[i * static_cast<size_t>(inner)] = std::numeric_limits<T>::lowest();
    }
  }
  for (const ReduceOp op : {ReduceOp::kArgMax, ReduceOp::kArgMin}) {
    for (const bool last : {false, true}) {
      const std::vector<int64_t> positions = reduce(op, x, last);
      for (int o = 0; o < outer; ++o) {
        for (int i = 0; i < inner; ++i) {
          std::vector<C> row;
          for (int e = 0; e < elems; ++e) row.push_back(Load(x[static_cast<size_t>((o * elems + e) * inner + i)]));
          EXPECT_EQ(positions[static_cast<size_t>(o * inner + i)], Position(row, op == ReduceOp::kArgMax, last))
              << DataTypeName(type) << " " << outer << "x" << elems << "x" << inner << " at " << o << "," << i;
        }
      }
    }
  }
}

TEST_F(ReduceKernelTest, PositionsOfExtremaInEveryLayoutAndType) {
  const Layout layouts[] = {{3, 7, 1}, {2, 40, 1}, {1, 1000, 1}, {1, 500, 3}, {2, 5, 8}, {2, 64, 24}};
  for (const Layout& layout : layouts) {
    const Shape dims{layout.outer, layout.elems, layout.inner};
    const auto check = [&]<DataType type>() {
      using T = CppType<type>;
      for (const int splits : {1, 4}) {
        if (splits > layout.elems / 8) continue;  // packs are what is split
        CheckPositions<type>([&](ReduceOp op, const std::vector<T>& x,
                                 bool last) { return Reduce<int64_t, type>(op, x, dims, 1, last, splits); },
                             layout);
      }
    };
    check.template operator()<DataType::kFloat>();
    check.template operator()<DataType::kDouble>();
    check.template operator()<DataType::kFloat16>();
    check.template operator()<DataType::kBFloat16>();
    check.template operator()<DataType::kInt8>();
    check.template operator()<DataType::kUint8>();
    check.template operator()<DataType::kInt16>();
    check.template operator()<DataType::kUint16>();
    check.template operator()<DataType::kInt32>();
    check.template operator()<DataType::kUint32>();
    check.template operator()<DataType::kInt64>();
    check.template operator()<DataType::kUint64>();
  }
}

TEST_F(ReduceKernelTest, ASplitReductionLeavesItsTicketsAsItFoundThem) {
  std::vector<float> x(4096);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7);
  const Shape dims{4096};
  const auto memsets = [&] { return device::sim::Snapshot().memsets; };
  const auto before = memsets();
  for (int run = 0; run < 3; ++run) {
    const auto sum = Reduce<float, DataType::kFloat>(ReduceOp::kSum, x, dims, 0, false, 16);
    EXPECT_EQ(sum[0], 12285.0f);
  }
  EXPECT_EQ(memsets(), before);
  EXPECT_EQ(Download(tickets_, kReduceTickets), std::vector<unsigned>(kReduceTickets, 0u));
}

// Far from zero, where a difference of squares would have no digits left; bit-equal however often it runs.
TEST_F(ReduceKernelTest, ScalesOfNormalisationsInEveryLayout) {
  for (const Layout& layout : {Layout{1, 4000, 1}, {3, 101, 1}, {2, 64, 24}, {1, 500, 3}}) {
    const auto [outer, elems, inner] = layout;
    std::vector<float> x(static_cast<size_t>(outer * elems * inner));
    uint32_t state = 99;
    for (float& value : x) value = 1000.0f + static_cast<float>((state = state * 1664525u + 1013904223u) >> 16) / 65536;
    const Shape dims{outer, elems, inner};
    for (const int splits : {1, 5}) {
      using Scale = NormScale<float>;
      const auto scales = [&](ReduceOp op) { return Reduce<Scale, DataType::kFloat>(op, x, dims, 1, false, splits); };
      const auto variance = scales(ReduceOp::kVarianceScale), again = scales(ReduceOp::kVarianceScale);
      const auto l1 = scales(ReduceOp::kL1Scale), l2 = scales(ReduceOp::kL2Scale);
      for (size_t i = 0; i < variance.size(); ++i) {
        const auto at = [&](int k) {
          const size_t o = i / static_cast<size_t>(inner), column = i % static_cast<size_t>(inner);
          return double{
              x[(o * static_cast<size_t>(elems) + static_cast<size_t>(k)) * static_cast<size_t>(inner) + column]};
        };
        double mean = 0, squares = 0, sum = 0, of_squares = 0;
        for (int k = 0; k < elems; ++k) mean += at(k) / elems;
        for (int k = 0; k < elems; ++k) {
          squares += (at(k) - mean) * (at(k) - mean);
          sum += at(k);
          of_squares += at(k) * at(k);
        }
        const double factor = 1 / std::sqrt(squares / elems);
        EXPECT_NEAR(variance[i].shift, mean, 1e-3);
        EXPECT_NEAR(variance[i].factor, factor, 1e-4 * factor) << outer << "x" << elems << "x" << inner;
        EXPECT_EQ(variance[i].shift, again[i].shift);
        EXPECT_EQ(variance[i].factor, again[i].factor);
        EXPECT_NEAR(l1[i].factor * sum, 1, 1e-5);
        EXPECT_NEAR(l2[i].factor * std::sqrt(of_squares), 1, 1e-5);
        EXPECT_EQ(l1[i].shift, 0);
      }
    }
  }
}

template <DataType type>
void CheckMeansOfCodes(auto reduce, const Layout& layout) {
  using T = CppType<type>;
  const auto [outer, elems, inner] = layout;
  const auto columns = static_cast<size_t>(inner), rows = static_cast<size_t>(elems);
  std::vector<T> x(static_cast<size_t>(outer) * rows * columns);
  uint32_t state = 77;
  for (T& code : x) code = static_cast<T>((state = state * 1664525u + 1013904223u) >> 24);
  for (size_t i = 0; i < rows; ++i) x[i * columns] = std::numeric_limits<T>::max();
  const int x_zero = std::is_signed_v<T> ? -128 : 0, lowest = x_zero;
  const QLinearMean mean{.ratio = 1.7f, .x_zero = x_zero, .y_zero = lowest + 3};
  const std::vector<T> y = reduce(x, mean);
  for (size_t at = 0; at < y.size(); ++at) {
    int sum = 0;
    for (size_t i = 0; i < rows; ++i) sum += x[(at / columns * rows + i) * columns + at % columns] - x_zero;
    const int code =
        static_cast<int>(std::nearbyint(static_cast<float>(sum) * mean.ratio / static_cast<float>(elems))) +
        mean.y_zero;
    EXPECT_EQ(int{y[at]}, std::min(code, lowest + 255)) << outer << 'x' << elems << 'x' << inner << " at " << at;
  }
}

// Of the first column all are the largest, whose mean is beyond the codes.
TEST_F(ReduceKernelTest, MeansOfCodesInEveryLayout) {
  for (const Layout& layout : {Layout{3, 49, 1}, {2, 256, 1}, {1, 4096, 1}, {2, 49, 48}, {1, 130, 16}, {3, 40, 7}}) {
    const Shape dims{layout.outer, layout.elems, layout.inner};
    for (const int splits : {1, 4}) {
      if (layout.elems / splits < 16) continue;  // packs are what is split
      for (const bool packed : {true, false}) {
        const auto check = [&]<DataType type>() {
          using T = CppType<type>;
          CheckMeansOfCodes<type>(
              [&](const std::vector<T>& x, const QLinearMean& mean) {
                return Reduce<T, type>(ReduceOp::kCodeMean, x, dims, 1, false, splits, packed, mean);
              },
              layout);
        };
        check.template operator()<DataType::kInt8>();
        check.template operator()<DataType::kUint8>();
      }
    }
  }
  EXPECT_EQ(FindReduceKernel(ReduceOp::kCodeMean, DataType::kFloat), nullptr);
  EXPECT_EQ(FindReduceKernel(ReduceOp::kMean, DataType::kInt8), nullptr);
}

TEST_F(ReduceKernelTest, MeansOfCodesThatAreTies) {
  std::vector<uint8_t> x(14, 6);
  for (size_t i = 0; i < 7; ++i) x[i] = 7;  // 6.5
  EXPECT_EQ((Reduce<uint8_t, DataType::kUint8>(ReduceOp::kCodeMean, x, Shape{1, 14}, 1, false, 1)),
            std::vector<uint8_t>{6});
}

// Sums that 32 bits do not hold.
TEST_F(ReduceKernelTest, MeansOfManyCodes) {
  constexpr int64_t kElems = int64_t{17} << 20;
  const std::vector<uint8_t> x(kElems, 255);
  const QLinearMean mean{.x_zero = 5};
  for (const int splits : {1, 64}) {
    EXPECT_EQ(
        (Reduce<uint8_t, DataType::kUint8>(ReduceOp::kCodeMean, x, Shape{1, kElems}, 1, false, splits, true, mean)),
        std::vector<uint8_t>{250});
  }
}

TEST_F(ReduceKernelTest, SplitsThatCannotBeAreRefused) {
  const bool reduced[] = {false, true};
  const auto plan = [&](Dims dims, int splits) {
    return PlanReduce(dims, reduced, ReduceOp::kSum, DataType::kFloat, kProcessors, true, splits).status();
  };
  EXPECT_OK(plan(Shape{2, 64}, 16));
  EXPECT_FAILS(plan(Shape{2, 64}, 17), kInvalidArgument, "17 blocks for each output");
  EXPECT_FAILS(plan(Shape{1 << 20, 1024}, 2), kInvalidArgument, "2 blocks for each output");
}

// Of few columns a block has as many as a sector holds, so that their rows are at once in many multiprocessors.
TEST(ReducePlanTest, FewColumnsAreCutToSectors) {
  constexpr std::array<bool, 3> kRows = {false, true, false};
  for (const auto& [batch, columns, width] : {std::tuple<int64_t, int64_t, unsigned>{1, 120, 2},
                                              {32, 120, 2},
                                              {1, 2400, 2},
                                              {1, 4800, 4},
                                              {32, 1152, 32},
                                              {1, 16, 2}}) {
    const auto plan = PlanReduce(Shape{batch, 784, columns}, kRows, ReduceOp::kMean, DataType::kFloat16, 132);
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan.value().width, width) << batch << ' ' << columns;
    EXPECT_EQ(plan.value().width * plan.value().height, 256u);
  }
}

// The channels of the last image of a classifier, at a batch of one and of many.
TEST(ReducePlanTest, CodesAreReadSixteenAtATime) {
  constexpr std::array<bool, 3> kRows = {false, true, false};
  for (const auto& [batch, width, height, blocks] :
       {std::tuple<int64_t, unsigned, unsigned, int64_t>{1, 2, 32, 64}, {32, 16, 16, 256}, {128, 32, 8, 512}}) {
    const auto plan = PlanReduce(Shape{batch, 49, 2048}, kRows, ReduceOp::kCodeMean, DataType::kInt8, 132);
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan.value().column_pack, 16);
    EXPECT_EQ(plan.value().width, width) << batch;
    EXPECT_EQ(plan.value().height, height) << batch;
    EXPECT_EQ(plan.value().kept.elems / width, blocks) << batch;
    EXPECT_EQ(plan.value().splits, 1) << batch;
  }
}

TEST_F(ReduceKernelTest, PositionsFit32Bits) {
  const bool reduced[] = {true};
  EXPECT_FAILS(PlanReduce(Shape{int64_t{1} << 31}, reduced, ReduceOp::kArgMax, DataType::kInt8, kProcessors).status(),
               kNotSupported, "positions among 2147483648 elements");
}

}  // namespace
}  // namespace cudaep::kernels
