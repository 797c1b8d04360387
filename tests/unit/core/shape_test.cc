#include "core/shape.h"

#include <gtest/gtest.h>

namespace cudaep {
namespace {

TEST(Shape, InlineAndHeapRanks) {
  for (int rank : {0, 1, 8, 9, 20}) {
    Shape shape(rank, 2);
    Shape copy = shape;
    EXPECT_EQ(copy, shape);
    EXPECT_EQ(copy.elems(), int64_t{1} << rank);
    Shape moved = std::move(copy);
    EXPECT_EQ(moved, shape);
    copy = moved;
    EXPECT_EQ(copy, shape);
  }
}

TEST(Shape, GrowsPastTheInlineRank) {
  Shape shape;
  for (int64_t i = 0; i < 12; ++i) shape.Append(i + 1);
  EXPECT_EQ(shape.rank(), 12);
  EXPECT_EQ(shape[0], 1);
  EXPECT_EQ(shape[11], 12);
}

TEST(Shape, CountsAreChecked) {
  EXPECT_EQ(CheckedElementCount(Shape{}).value(), 1);
  EXPECT_EQ(CheckedElementCount(Shape{3, 0, 5}).value(), 0);
  EXPECT_EQ(CheckedElementCount(Shape{2, -1}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckedElementCount(Shape{int64_t{1} << 40, int64_t{1} << 40}).status().code(),
            StatusCode::kInvalidArgument);
  // An empty tensor is empty however large its other dimensions are.
  EXPECT_EQ(CheckedElementCount(Shape{int64_t{1} << 40, int64_t{1} << 40, 0}).value(), 0);
}

TEST(Shape, Axes) {
  EXPECT_EQ(NormalizeAxis(-1, 3).value(), 2);
  EXPECT_EQ(NormalizeAxis(0, 3).value(), 0);
  EXPECT_EQ(NormalizeAxis(3, 3).status().message(), "axis 3 is outside [-3, 3)");
  EXPECT_FALSE(NormalizeAxis(0, 0).ok());
}

TEST(Shape, Broadcasting) {
  EXPECT_EQ(BroadcastShapes(Shape{2, 1, 4}, Shape{3, 1}).value(), (Shape{2, 3, 4}));
  EXPECT_EQ(BroadcastShapes(Shape{}, Shape{5}).value(), Shape{5});
  EXPECT_EQ(BroadcastShapes(Shape{0}, Shape{1}).value(), Shape{0});
  EXPECT_EQ(BroadcastShapes(Shape{2}, Shape{3}).status().message(), "shapes [2] and [3] do not broadcast");
}

}  // namespace
}  // namespace cudaep
