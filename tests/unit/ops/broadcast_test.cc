#include "kernels/elementwise/broadcast.h"

#include <gtest/gtest.h>

#include "kernels/fast_divide.h"
#include "ops/elementwise/model_broadcast.h"
#include "plain_info.h"

namespace cudaep::kernels {
namespace {

struct Case {
  Shape output, a, b;
  int rank;
  std::vector<int64_t> size, a_stride, b_stride;  // innermost first
};

class Coalescing : public testing::TestWithParam<Case> {};

TEST_P(Coalescing, GivesTheFewestDimensions) {
  const Case& c = GetParam();
  const auto b = MakeBroadcast<2>(c.output, {c.a.dims(), c.b.dims()});
  ASSERT_TRUE(b.ok()) << b.status().ToString();
  EXPECT_EQ(b.value().rank, c.rank);
  EXPECT_EQ(b.value().elems, c.output.elems());
  for (int d = 0; d < c.rank; ++d) {
    const auto i = static_cast<size_t>(d);
    EXPECT_EQ(b.value().size[d], c.size[i]);
    EXPECT_EQ(b.value().stride[0][d], c.a_stride[i]);
    EXPECT_EQ(b.value().stride[1][d], c.b_stride[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Coalescing,
                         testing::Values(Case{{2, 3, 4}, {2, 3, 4}, {2, 3, 4}, 1, {24}, {1}, {1}},
                                         Case{{2, 3, 4}, {2, 3, 4}, {}, 1, {24}, {1}, {0}},
                                         Case{{2, 3, 4}, {2, 3, 4}, {4}, 2, {4, 6}, {1, 4}, {1, 0}},
                                         Case{{2, 3, 4}, {2, 3, 4}, {3, 1}, 3, {4, 3, 2}, {1, 4, 12}, {0, 1, 0}},
                                         Case{{2, 3, 4}, {2, 1, 1}, {1, 3, 4}, 2, {12, 2}, {0, 1}, {1, 0}},
                                         Case{{1, 1}, {1}, {1, 1}, 1, {1}, {0}, {0}},
                                         Case{{}, {}, {}, 1, {1}, {0}, {0}}, Case{{0, 3}, {0, 3}, {3}, 0, {}, {}, {}}));

TEST(Broadcast, TooManyDimensionsAreRefused) {
  // Alternating repeated dimensions cannot merge.
  const Shape a{2, 1, 2, 1, 2, 1, 2, 1, 2}, b{1, 2, 1, 2, 1, 2, 1, 2, 1}, out{2, 2, 2, 2, 2, 2, 2, 2, 2};
  const auto result = MakeBroadcast<2>(out, {a.dims(), b.dims()});
  EXPECT_EQ(result.status().code(), StatusCode::kNotSupported);
}

class Stated : public ops::testing::PlainInfo {
 public:
  explicit Stated(std::vector<Shape> dims) : PlainInfo("Test", static_cast<int>(dims.size())), dims_(std::move(dims)) {}
  std::optional<Shape> input_dims(int index) const override { return dims_[static_cast<size_t>(index)]; }

 private:
  std::vector<Shape> dims_;
};

TEST(Broadcast, TooManyDimensionsOfTheModelAreRefusedAtCreation) {
  const Shape a{2, 1, 2, 1, 2, 1, 2, 1, 2}, b{1, 2, 1, 2, 1, 2, 1, 2, 1};
  const auto check = [](std::vector<Shape> dims) { return ops::CheckModelBroadcast<3>(Stated(std::move(dims))); };
  EXPECT_EQ(check({a, b}).code(), StatusCode::kNotSupported);
  EXPECT_TRUE(check({a, a}).ok());
  EXPECT_TRUE(check({a, b, Shape{kUnknownDim}}).ok());
  EXPECT_TRUE(check({Shape{2}, Shape{3}}).ok());  // left to the Run
}

TEST(FastDivider, AgreesWithDivision) {
  for (uint32_t d : {1u, 2u, 3u, 5u, 7u, 10u, 641u, 65535u, 65536u, 1000003u, 0x7fffffffu, 0x80000000u}) {
    const FastDivider divider(d);
    for (uint32_t n : {0u, 1u, 2u, d - 1, d, d + 1, 12345678u, 0x7ffffffeu, 0x7fffffffu}) {
      if (n > 0x7fffffffu) continue;
      EXPECT_EQ(divider.Divide(n), n / d) << n << "/" << d;
      uint32_t remainder = 0;
      divider.DivideWithRemainder(n, &remainder);
      EXPECT_EQ(remainder, n % d);
    }
  }
}

}  // namespace
}  // namespace cudaep::kernels
