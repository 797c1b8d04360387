// Shapes of MatMul and Gemm to library problems.
#include "ops/gemm/gemm_plan.h"

#include <gtest/gtest.h>

namespace cudaep::ops {
namespace {

MatMulGeometry Place(const Shape& a, const Shape& b, OperandForm a_form = {}, OperandForm b_form = {}) {
  auto geometry = PlaceMatMul(a, a_form, b, b_form);
  EXPECT_TRUE(geometry.ok()) << geometry.status().ToString();
  return std::move(geometry).value();
}

TEST(MatMulPlan, SharedRightOperandIsOneTallProduct) {
  const MatMulGeometry g = Place({2, 3, 5}, {5, 4});
  EXPECT_EQ(g.output, (Shape{2, 3, 4}));
  EXPECT_EQ(g.problem.m, 6);
  EXPECT_EQ(g.problem.batches(), 1);
  EXPECT_EQ(g.launches.size(), 1u);
}

TEST(MatMulPlan, TransposedLeftOperandStaysABatch) {
  const MatMulGeometry g = Place({2, 5, 3}, {5, 4}, {.transpose = true});
  EXPECT_EQ(g.problem.m, 3);
  EXPECT_EQ(g.problem.batches(), 2);
  EXPECT_EQ(g.problem.batch[0].stride_a, 15);
  EXPECT_EQ(g.problem.batch[0].stride_b, 0);
}

TEST(MatMulPlan, BatchDimensionsThatGoTogetherAreOne) {
  const MatMulGeometry g = Place({2, 3, 4, 5}, {2, 3, 5, 6});
  EXPECT_EQ(g.problem.batches(), 6);
  EXPECT_EQ(g.problem.batch[0].stride_c, 24);
  EXPECT_EQ(g.launches.size(), 1u);
}

TEST(MatMulPlan, CrossedBroadcastIsOneProblemOfTwoBatchDimensions) {
  const MatMulGeometry g = Place({2, 1, 4, 5}, {1, 7, 5, 6}, {}, {});
  EXPECT_EQ(g.output, (Shape{2, 7, 4, 6}));
  EXPECT_EQ(g.problem.batch[0], (blas::BatchDim{7, 0, 30, 24}));
  EXPECT_EQ(g.problem.batch[1], (blas::BatchDim{2, 20, 0, 7 * 24}));
  EXPECT_EQ(g.launches.size(), 1u);
}

TEST(MatMulPlan, AFourthBatchDimensionIsLaunched) {
  const MatMulGeometry g = Place({2, 1, 3, 1, 4, 5}, {1, 7, 1, 6, 5, 6});
  EXPECT_EQ(g.problem.batches(), 7 * 6 * 3);
  ASSERT_EQ(g.launches.size(), 2u);
  EXPECT_EQ(g.launches[1], (GemmOffsets{60, 0, 7 * 3 * 6 * 24}));
}

TEST(MatMulPlan, TransposedBatchIsRowsWithAWideStride) {
  const MatMulGeometry g = Place({3, 2, 5}, {2, 5, 4}, {.transpose_batch = true});
  EXPECT_EQ(g.output, (Shape{2, 3, 4}));
  EXPECT_EQ(g.problem.lda, 10);
  EXPECT_EQ(g.problem.batch[0].stride_a, 5);
}

TEST(MatMulPlan, VectorsLoseTheirDimension) {
  EXPECT_EQ(Place({5}, {5}).output, Shape());
  EXPECT_EQ(Place({5}, {2, 5, 4}).output, (Shape{2, 4}));
  EXPECT_EQ(Place({2, 3, 5}, {5}).output, (Shape{2, 3}));
}

TEST(MatMulPlan, EmptyResultHasNoLaunch) { EXPECT_TRUE(Place({0, 5}, {5, 4}).launches.empty()); }

TEST(GemmPlan, OneRowAtBetaOneIsTheEpilogue) {
  const Shape a{3, 5}, b{5, 4}, row{4}, column{3, 1};
  const Dims c_row = row, c_column = column;
  EXPECT_EQ(PlaceGemm(a, false, b, false, &c_row, 1.0f)->addend, GemmAddend::kBias);
  EXPECT_EQ(PlaceGemm(a, false, b, false, &c_row, 0.5f)->addend, GemmAddend::kBroadcast);
  EXPECT_EQ(PlaceGemm(a, false, b, false, &c_row, 0.0f)->addend, GemmAddend::kNone);
  auto by_column = PlaceGemm(a, false, b, false, &c_column, 1.0f);
  EXPECT_EQ(by_column->addend, GemmAddend::kBroadcast);
  EXPECT_EQ(by_column->c_row_stride, 1);
  EXPECT_EQ(by_column->c_column_stride, 0);
}

}  // namespace
}  // namespace cudaep::ops
