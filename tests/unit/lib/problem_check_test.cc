// Wrong problems are refused with the field that is wrong.
#include "lib/problem_check.h"

#include <gtest/gtest.h>

namespace cudaep {
namespace {

void ExpectInvalid(const Status& status, std::string_view part) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(part), std::string_view::npos) << status.ToString();
}

TEST(CheckGemm, NamesWhatIsWrong) {
  const blas::GemmProblem good{.m = 4, .n = 6, .k = 8, .lda = 8, .ldb = 6, .ldc = 6};
  EXPECT_TRUE(blas::CheckProblem(good).ok());
  auto bad = good;
  bad.types.b = DataType::kFloat16;
  ExpectInvalid(blas::CheckProblem(bad), "float,float16,float,float");
  bad = good;
  bad.types = lib::MixedTypes::Of(DataType::kInt8);
  EXPECT_TRUE(blas::CheckProblem(bad).ok());
  bad.epilogue.activation = Activation::kRelu;
  ExpectInvalid(blas::CheckProblem(bad), "activation");
  bad = good;
  bad.k = 0;
  ExpectInvalid(blas::CheckProblem(bad), "4x6x0");
  bad = good;
  bad.lda = 7;
  ExpectInvalid(blas::CheckProblem(bad), "A has 8 columns but only 7");
  bad = good;
  bad.transpose_b = true;
  ExpectInvalid(blas::CheckProblem(bad), "B has 8 columns but only 6");
  bad = good;
  bad.batch[1].size = 2;
  ExpectInvalid(blas::CheckProblem(bad), "overlap");
  bad = good;
  bad.m = INT64_MAX / 2;
  ExpectInvalid(blas::CheckProblem(bad), "64 bits");
}

TEST(CheckGemm, OneRowNeedsNoStride) {
  EXPECT_TRUE(blas::CheckProblem({.m = 1, .n = 6, .k = 8, .lda = 0, .ldb = 6, .ldc = 0}).ok());
}

dnn::ConvProblem GoodConvolution() {
  dnn::ConvProblem p;
  p.batch = 1, p.in_channels = 4, p.out_channels = 6, p.groups = 2;
  p.in = {9, 9}, p.kernel = {3, 3}, p.out = {5, 5};
  p.pad_begin = {1, 1}, p.pad_end = {1, 1}, p.stride = {2, 2}, p.dilation = {1, 1};
  return p;
}

TEST(CheckConvolution, NamesWhatIsWrong) {
  EXPECT_TRUE(dnn::CheckProblem(GoodConvolution()).ok());
  auto bad = GoodConvolution();
  bad.spatial_rank = 4;
  ExpectInvalid(dnn::CheckProblem(bad), "not 4");
  bad = GoodConvolution();
  bad.groups = 4;
  ExpectInvalid(dnn::CheckProblem(bad), "4 groups");
  bad = GoodConvolution();
  bad.out[1] = 6;
  ExpectInvalid(dnn::CheckProblem(bad), "expected 5");
  bad = GoodConvolution();
  bad.pad_end[0] = -1;
  ExpectInvalid(dnn::CheckProblem(bad), "negative padding");
  bad = GoodConvolution();
  bad.stride[1] = 0;
  ExpectInvalid(dnn::CheckProblem(bad), "spatial dimension 1");
  bad = GoodConvolution();
  bad.batch = INT64_MAX / 4;
  ExpectInvalid(dnn::CheckProblem(bad), "64 bits");
}

TEST(CheckConvolution, TransposedTakesOutputPadding) {
  auto p = GoodConvolution();
  p.direction = dnn::Direction::kBackward;
  p.in = {5, 5};
  p.out = {10, 9};
  EXPECT_TRUE(dnn::CheckProblem(p).ok());
  p.out = {8, 9};
  ExpectInvalid(dnn::CheckProblem(p), "at least 9");
}

TEST(ProblemText, TellsTheProblem) {
  const std::string text = dnn::ProblemText(GoodConvolution());
  for (std::string_view part : {"float", "4->6", "groups 2", "[9,9]", "[3,3]"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  dnn::ConvProblem clipped = GoodConvolution();
  clipped.epilogue.activation = Activation::kClip;
  clipped.epilogue.parameters = {0, 6};
  dnn::ConvProblem further = clipped;
  further.epilogue.parameters.b = 7;
  EXPECT_NE(dnn::ProblemText(clipped), dnn::ProblemText(further));
}

TEST(SizesOf, CountsElements) {
  const dnn::ConvSizes sizes = dnn::SizesOf(GoodConvolution());
  EXPECT_EQ(sizes.x, 4 * 81);
  EXPECT_EQ(sizes.w, 6 * 2 * 9);
  EXPECT_EQ(sizes.y, 6 * 25);
}

}  // namespace
}  // namespace cudaep
