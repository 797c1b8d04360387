#include "ops/attention/linear_keys.h"

#include <gtest/gtest.h>

#include "plain_info.h"

namespace cudaep::ops {
namespace {

class Query : public testing::PlainInfo {
 public:
  explicit Query(std::optional<Shape> dims) : PlainInfo("LinearAttention", 1), dims_(dims) {}
  std::optional<Shape> input_dims(int) const override { return dims_; }

 private:
  std::optional<Shape> dims_;
};

StatusCode CodeOf(std::optional<Shape> dims, int64_t heads) {
  return CheckStatedLinearKeys(Query(dims), 0, heads).code();
}

TEST(LinearKeys, WhatTheModelStatesIsCheckedAtCreation) {
  EXPECT_EQ(CodeOf(Shape{1, 4, 1024}, 2), StatusCode::kOk);
  EXPECT_EQ(CodeOf(Shape{1, 4, 1026}, 2), StatusCode::kNotSupported);
  EXPECT_EQ(CodeOf(Shape{4, 2, 520}, 1), StatusCode::kNotSupported);
}

TEST(LinearKeys, WhatIsUnknownIsFine) {
  EXPECT_EQ(CodeOf(Shape{1, 4, kUnknownDim}, 2), StatusCode::kOk);
  EXPECT_EQ(CodeOf(Shape{}, 2), StatusCode::kOk);
  EXPECT_EQ(CodeOf(std::nullopt, 2), StatusCode::kOk);
}

}  // namespace
}  // namespace cudaep::ops
