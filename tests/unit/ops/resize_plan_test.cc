// Scales, sizes and policies of Resize to dimensions of the kernel.
#include "ops/resize/resize_plan.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cudaep::ops {
namespace {

TEST(ResizePlan, DimensionsThatAreNotScaledMerge) {
  const ResizeAttributes attributes;
  const Shape x{2, 3, 4, 5};
  auto axes = CombineAxes(attributes, x, {.scales = {1, 1, 2, 1}});
  auto shape = PlaceResize(attributes, *axes);
  ASSERT_EQ(shape->rank, 3);
  EXPECT_EQ(shape->dim[0].in, 5);
  EXPECT_TRUE(shape->dim[1].scaled);
  EXPECT_EQ(shape->dim[1].out, 8);
  EXPECT_EQ(shape->dim[2].in, 6);
}

TEST(ResizePlan, PolicyKeepsOneScale) {
  ResizeAttributes attributes;
  attributes.axes = {1, 0};
  const Shape x{4, 6};
  attributes.policy = AspectPolicy::kNotLarger;
  auto smaller = CombineAxes(attributes, x, {.sizes = {9, 8}});
  EXPECT_EQ((*smaller)[0].out, 6);
  EXPECT_EQ((*smaller)[1].out, 9);
  attributes.policy = AspectPolicy::kNotSmaller;
  auto larger = CombineAxes(attributes, x, {.sizes = {9, 8}});
  EXPECT_EQ((*larger)[0].out, 8);
  EXPECT_EQ((*larger)[1].out, 12);
}

TEST(ResizePlan, HostileValuesAreRefused) {
  ResizeAttributes attributes;
  const Shape x{4};
  for (float scale : {0.0f, -1.0f, 1e30f, NAN}) {
    EXPECT_EQ(CombineAxes(attributes, x, {.scales = {scale}}).status().code(), StatusCode::kInvalidArgument) << scale;
  }
  EXPECT_FALSE(CombineAxes(attributes, x, {.sizes = {-1}}).ok());
  EXPECT_FALSE(CombineAxes(attributes, x, {.scales = {1}, .sizes = {4}}).ok());
  EXPECT_FALSE(CombineAxes(attributes, x, {}).ok());
  attributes.coordinates = CoordinateMode::kTfCropAndResize;
  EXPECT_FALSE(CombineAxes(attributes, x, {.scales = {1}, .roi = {NAN, 1}}).ok());
  EXPECT_FALSE(CombineAxes(attributes, x, {.scales = {1}, .roi = {0}}).ok());
}

}  // namespace
}  // namespace cudaep::ops
