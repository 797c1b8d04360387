#include "core/status.h"

#include <gtest/gtest.h>

#include "core/data_type.h"
#include "core/shape.h"

namespace cudaep {
namespace {

Status Fails() { return InvalidArgument("axis ", 7, " of ", Dims(std::initializer_list<int64_t>{2, 3})); }
Result<int> Seven() { return 7; }
Result<int> Twice(bool fail) {
  CUDAEP_ASSIGN_OR_RETURN(const int value, fail ? Result<int>(Fails()) : Seven());
  return 2 * value;
}

TEST(Status, CarriesCodeAndText) {
  const Status status = Fails();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.ToString(), "INVALID_ARGUMENT: axis 7 of [2,3]");
  EXPECT_EQ(Status::Ok().ToString(), "OK");
}

TEST(Status, CopiesAndMoves) {
  const Status status = Fails();
  Status copy = status;
  EXPECT_EQ(copy.message(), status.message());
  copy = Status::Ok();
  EXPECT_TRUE(copy.ok());
  EXPECT_FALSE(status.ok());
}

TEST(Status, OwnsItsText) {
  Status a = Fails(), b = NotSupported("that");
  b = std::move(a);  // over another error
  EXPECT_EQ(b.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(a.ok());  // NOLINT(bugprone-use-after-move): success is what a moved one holds
  Status& same = b;
  b = std::move(same);
  EXPECT_EQ(b.ToString(), Fails().ToString());
  b = same;
  EXPECT_EQ(b.ToString(), Fails().ToString());
  const std::string long_text(100, 'x');
  b = Status(StatusCode::kInternal, long_text);
  EXPECT_EQ(b.message(), long_text);
  EXPECT_NE(b.message().data(), long_text.data());
}

TEST(Status, ContextGoesInFront) {
  EXPECT_EQ(Fails().WithContext("node 'a'").message(), "node 'a': axis 7 of [2,3]");
  EXPECT_TRUE(Status::Ok().WithContext("node").ok());
}

TEST(Result, ValueOrError) {
  EXPECT_EQ(Twice(false).value(), 14);
  EXPECT_EQ(Twice(true).status().code(), StatusCode::kInvalidArgument);
}

TEST(DataType, NamesSizesAndSets) {
  EXPECT_EQ(DataTypeName(DataType::kBFloat16), "bfloat16");
  EXPECT_EQ(SizeOf(DataType::kComplex128), 16u);
  EXPECT_EQ(DataTypeName(static_cast<DataType>(99)), "undefined");
  EXPECT_TRUE(kNumericTypes.Contains(DataType::kUint16));
  EXPECT_FALSE(kNumericTypes.Contains(DataType::kBool));
  EXPECT_FALSE((kNumericTypes - kIntTypes).Contains(DataType::kInt32));
}

}  // namespace
}  // namespace cudaep
