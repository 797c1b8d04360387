// Attributes and shapes of convolutions and windows to problems and paths.
#include "ops/conv/conv_plan.h"

#include <gtest/gtest.h>

namespace cudaep::ops {
namespace {

dnn::ConvProblem Conv(const Shape& x, const Shape& w, int64_t groups, std::vector<int64_t> pads = {}) {
  ConvAttributes attributes;
  attributes.groups = groups;
  attributes.window.pads = std::move(pads);
  auto problem = PlaceConv(attributes, x, w, nullptr);
  EXPECT_TRUE(problem.ok()) << problem.status().ToString();
  return problem.value();
}

TEST(Window, CeilModeDropsAWindowThatStartsInTheTrailingPadding) {
  const WindowAttributes attributes{.strides = {3}, .pads = {1, 1}, .ceil_mode = true};
  const Shape in{6}, kernel{2};
  EXPECT_EQ(PlaceWindow(attributes, in, kernel)->out[0], 3);
  const Shape longer{5};
  EXPECT_EQ(PlaceWindow(attributes, longer, kernel)->out[0], 2);
}

TEST(Window, SameLowerPutsTheOddElementFirst) {
  const WindowAttributes attributes{.auto_pad = AutoPad::kSameLower};
  const Shape in{7}, kernel{4};
  auto window = PlaceWindow(attributes, in, kernel);
  EXPECT_EQ(window->pad_begin[0], 2);
  EXPECT_EQ(window->pad_end[0], 1);
  EXPECT_EQ(window->out[0], 7);
}

TEST(ConvPlan, OnlySmallKernelsOnEachChannelAreDepthwise) {
  EXPECT_TRUE(IsDepthwise(Conv({1, 8, 9, 9}, {8, 1, 3, 3}, 8)));
  EXPECT_TRUE(IsDepthwise(Conv({1, 8, 9}, {16, 1, 3}, 8)));
  EXPECT_FALSE(IsDepthwise(Conv({1, 8, 9, 9}, {8, 2, 3, 3}, 4)));
  EXPECT_FALSE(IsDepthwise(Conv({1, 1, 9, 9}, {8, 1, 3, 3}, 1)));
  EXPECT_FALSE(IsDepthwise(Conv({1, 8, 9, 9}, {8, 1, 9, 9}, 8)));
  dnn::ConvProblem wide = Conv({1, 8, 9, 9}, {8, 1, 3, 3}, 8);
  wide.types = lib::MixedTypes::Of(DataType::kDouble);
  EXPECT_FALSE(IsDepthwise(wide));
}

TEST(ConvPlan, PointwiseImagesAreOneBatchWithoutColumns) {
  const ColumnConv columns = PlaceColumns(Conv({5, 3, 4, 4}, {6, 3, 1, 1}, 1));
  EXPECT_TRUE(columns.direct);
  EXPECT_EQ(columns.images, 1);
  EXPECT_EQ(columns.product.batches(), 5);
  EXPECT_EQ(columns.product.batch[0].stride_b, 48);
  EXPECT_EQ(columns.column_elems, 0);
}

TEST(ConvPlan, GroupsAreTheBatchOfAProduct) {
  const ColumnConv columns = PlaceColumns(Conv({2, 4, 6, 6}, {6, 2, 3, 3}, 2));
  EXPECT_FALSE(columns.direct);
  EXPECT_EQ(columns.images, 2);
  EXPECT_EQ(columns.product.batches(), 2);
  EXPECT_EQ(columns.product.m, 3);
  EXPECT_EQ(columns.product.k, 18);
  EXPECT_EQ(columns.product.n, 16);
}

TEST(ConvPlan, LargeImagesAreCutIntoChunks) {
  const ColumnConv columns = PlaceColumns(Conv({1, 512, 200, 200}, {8, 512, 3, 3}, 1, {1, 1, 1, 1}));
  EXPECT_LT(columns.chunk, columns.pixels);
  EXPECT_LE(columns.column_elems * 4, int64_t{32} << 20);
}

TEST(ConvPlan, OutputShapeDecidesTransposedPadding) {
  ConvAttributes attributes;
  attributes.window.strides = {2, 2};
  attributes.output_shape = {8, 9};
  const Shape x{1, 3, 4, 4}, w{3, 5, 3, 3};
  auto problem = PlaceConvTranspose(attributes, x, w, nullptr);
  EXPECT_EQ(OutputOf(*problem), (Shape{1, 5, 8, 9}));
  EXPECT_EQ(problem->pad_begin[0], 1);
  EXPECT_EQ(problem->pad_end[0], 0);
  EXPECT_EQ(problem->pad_begin[1], 0);
}

}  // namespace
}  // namespace cudaep::ops
