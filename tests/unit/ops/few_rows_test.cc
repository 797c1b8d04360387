// Kernels of few rows: which blocks, and what they come to.
#include "kernels/gemm/few_rows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "context_fixture.h"
#include "core/strings.h"

namespace cudaep::ops {
namespace {

// Clusters exist on GPUs alone; narrow blocks are one for each multiprocessor at most.
TEST(FewRowsTest, BlocksAreAsManyAsFillTheDevice) {
  device::DeviceInfo device;
  device.major = 9, device.multiprocessors = 132;
  const auto plan = [&](int64_t n, int64_t k, int64_t m) {
    return kernels::PlanFewRows({.m = m, .n = n, .k = k}, device);
  };
  const auto splits = [&](int64_t n, int64_t k) {
    const kernels::FewRowsPlan found = plan(n, k, 16);
    EXPECT_EQ(found.columns, kernels::kStagedColumns);
    return found.splits;
  };
  EXPECT_EQ(splits(4096, 4096), 2);
  EXPECT_EQ(splits(2048, 2048), 4);
  EXPECT_EQ(splits(512, 2048), 8);
  EXPECT_EQ(splits(32000, 4096), 1);
  EXPECT_EQ(splits(64, 128), 1);
  EXPECT_EQ(splits(64, 256), 2);
  const auto columns = [&](int64_t n, int64_t k, int64_t m = 8) { return plan(n, k, m).columns; };
  EXPECT_EQ(columns(1056, 2048), 8);
  EXPECT_EQ(columns(1064, 2048), 16);
  EXPECT_EQ(columns(3072, 2048), 24);
  EXPECT_EQ(columns(4224, 8), 32);
  EXPECT_EQ(columns(4232, 8), kernels::kStagedColumns);
  EXPECT_EQ(columns(1056, 2056), kernels::kStagedColumns);
  EXPECT_EQ(columns(1056, 2048, 9), kernels::kStagedColumns);
  device.simulated = true;
  EXPECT_EQ(splits(512, 2048), 1);
  device.simulated = false, device.major = 8;
  EXPECT_EQ(splits(512, 2048), 1);
  EXPECT_EQ(columns(3072, 2048), 24);
}

class FewRowsKernelTest : public ContextTest {
 protected:
  const char* Lacks(const device::DeviceInfo& device) const override {
    return kernels::TakesFewRows({.m = 1, .n = 8, .k = 8}, device) ? nullptr : "no tensor cores";
  }
  // Beside sums in fp64, with all that may be added, and what lies behind the result.
  void Expect(DataType type, int64_t m, int64_t n, int64_t k, const kernels::FewRowsPlan& plan) {
    SCOPED_TRACE(StrCat(DataTypeName(type), ' ', m, " x ", n, " x ", k, " by ", plan.columns, " columns"));
    for (const bool adds : {false, true}) {
      Epilogue epilogue{.beta = adds ? 1.0f : 0.0f, .bias = adds};
      if (adds) epilogue.activation = Activation::kRelu;
      const auto a = TestValues(m * k, 1), b = TestValues(n * k, 2), bias = TestValues(n, 3);
      const auto residual = TestValues(m * n, 4);
      void* const c = Upload(type, std::vector<double>(static_cast<size_t>(m * n) + 64, 7.0));
      Check(kernels::LaunchFewRows({.type = type, .m = m, .n = n, .k = k, .epilogue = epilogue}, plan,
                                   {.a = Upload(type, a),
                                    .b = Upload(type, b),
                                    .c = c,
                                    .bias = Upload(type, bias),
                                    .residual = Upload(type, residual)},
                                   stream()));
      std::vector<double> wanted;
      for (int64_t row = 0; row < m; ++row) {
        for (int64_t column = 0; column < n; ++column) {
          double sum = adds ? bias[static_cast<size_t>(column)] + residual[wanted.size()] : 0.0;
          for (int64_t i = 0; i < k; ++i) {
            sum += a[static_cast<size_t>(row * k + i)] * b[static_cast<size_t>(column * k + i)];
          }
          wanted.push_back(adds ? std::max(sum, 0.0) : sum);
        }
      }
      ExpectNear(type, Download(type, c, m * n), wanted);
      const auto all = Download(type, c, m * n + 64);
      EXPECT_EQ(std::count(all.begin() + m * n, all.end(), 7.0), 64);
    }
  }
};

TEST_F(FewRowsKernelTest, NarrowBlocksOfEveryWidth) {
  for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    for (const int columns : {8, 16, 24, 32}) {
      for (const int64_t m : {1, 3, 8}) Expect(type, m, 40, 136, {.columns = columns});
      Expect(type, 2, 8, 8, {.columns = columns});
      Expect(type, 5, 72, 1032, {.columns = columns});
      Expect(type, 1, 64, 2048, {.columns = columns});
    }
  }
}

TEST_F(FewRowsKernelTest, StagedBlocks) {
  for (const int64_t m : {1, 9, 16}) {
    Expect(DataType::kFloat16, m, 72, 1032, {});
    Expect(DataType::kBFloat16, m, 8, 2056, {});
  }
}

TEST_F(FewRowsKernelTest, NarrowBlocksRefuseWhatTheyDoNotHold) {
  const auto code = [&](int64_t m, int64_t k, int columns) {
    return kernels::LaunchFewRows({.m = m, .n = 64, .k = k}, {.columns = columns}, {}, stream()).code();
  };
  EXPECT_EQ(code(9, 64, 8), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(1, 2056, 8), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(1, 64, 40), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(1, 64, 0), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(1, 64, 12), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cudaep::ops
