// Attention of codes by each kernel itself.
#include "kernels/quant/code_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <random>
#include <set>
#include <vector>

#include "context_fixture.h"
#include "kernels/common/tensor_cores.h"
#include "kernels/gemm/warpgroup_tiles.h"

namespace cudaep::ops {
namespace {

using kernels::CodeAttention;
using kernels::CodeAttentionStep;
using Kernel = kernels::CodeAttentionKernel;

constexpr int64_t kBatch = 2, kHeads = 2, kMatrices = kBatch * kHeads;
constexpr int64_t kBeside = 16;  // elements behind each row of the result, which nobody may touch
constexpr int8_t kUntouched = 77;

struct Case {
  Kernel kernel = Kernel::kWarps;
  int64_t queries = 37, keys = 64, head = 32;
  DataType mask = DataType::kUndefined;
  bool scaled = false;
  bool one_mask = false;   // of all of the batch
  size_t offset = 0;       // bytes beside an aligned address
  float most_share = 255;  // what a share of 1 is, which a code may not reach
};

std::ostream& operator<<(std::ostream& to, const Case& c) {
  return to << "kernel " << static_cast<int>(c.kernel) << ", " << c.queries << " x " << c.keys << " x " << c.head
            << ", mask " << static_cast<int>(c.mask) << (c.one_mask ? " of all" : "") << ", scaled " << c.scaled
            << ", offset " << c.offset << ", shares of " << c.most_share;
}

CodeAttention Problem(const Case& c) {
  CodeAttention p{.batch = kBatch, .heads = kHeads, .queries = c.queries, .keys = c.keys, .head_size = c.head};
  const auto place = [](int64_t rows, int64_t row) {
    return kernels::AttentionStrides{.batch = kHeads * rows * row, .head = rows * row, .row = row};
  };
  p.q = place(c.queries, c.head), p.y = place(c.queries, c.head + kBeside);
  p.k = p.v = place(c.keys, c.head);
  p.q_zero = 4, p.k_zero = -7, p.v_zero = 9, p.y_zero = 3, p.mask_zero = 5;
  p.scores = {.factor = 0x1p-9f, .least = -123, .most = 132};
  p.scaled = {.factor = 0.875f, .least = -101, .most = 154};
  p.has_scaled = c.scaled ? 1 : 0;
  p.masked = {.factor = 0.875f, .least = -200, .most = 55};
  p.shares = {.factor = c.most_share, .least = 0, .most = 255};
  p.result = {.factor = 0x1p-8f, .least = -131, .most = 124};
  p.exponent = 0.0625f;
  p.kernel = c.kernel;
  p.mask = c.mask, p.mask_factor = 0.5f, p.mask_stride = c.one_mask ? 0 : c.keys;
  return p;
}

double Whole(const CodeAttentionStep& step, double x) {
  return std::isnan(x) ? step.least : std::clamp(std::nearbyint(x), double{step.least}, double{step.most});
}

struct Inputs {
  std::vector<int8_t> q, k, v;
  std::vector<float> numbers;     // of the mask
  std::vector<uint8_t> of_codes;  // the same as codes
};

// What a row of the result is; nothing where a share lies so near to a tie that both codes are right.
std::vector<double> ExpectedRow(const CodeAttention& p, const Inputs& in, int64_t matrix, int64_t row) {
  const auto at = [&](const std::vector<int8_t>& codes, int64_t rows, int64_t r, int64_t d) {
    return int{codes[static_cast<size_t>((matrix * rows + r) * p.head_size + d)]};
  };
  std::vector<double> score;
  for (int64_t key = 0; key < p.keys; ++key) {
    int sum = 0;
    for (int64_t d = 0; d < p.head_size; ++d) {
      sum += (at(in.q, p.queries, row, d) - p.q_zero) * (at(in.k, p.keys, key, d) - p.k_zero);
    }
    double x = Whole(p.scores, sum * double{p.scores.factor});
    if (p.has_scaled != 0) x = Whole(p.scaled, x * p.scaled.factor);
    if (p.mask != DataType::kUndefined) {
      const auto of = static_cast<size_t>(matrix / kHeads * p.mask_stride + key);
      const double number = p.mask == DataType::kFloat  ? in.numbers[of]
                            : p.mask == DataType::kInt8 ? static_cast<int8_t>(in.of_codes[of]) - p.mask_zero
                                                        : in.of_codes[of] - p.mask_zero;
      x = Whole(p.masked, x * p.masked.factor + number * p.mask_factor);
    }
    score.push_back(x);
  }
  const double most = *std::ranges::max_element(score);
  double total = 0;
  for (const double x : score) total += std::exp2((x - most) * p.exponent);
  std::vector<double> result(static_cast<size_t>(p.head_size));
  for (int64_t key = 0; key < p.keys; ++key) {
    const double number = std::exp2((score[static_cast<size_t>(key)] - most) * p.exponent) / total * p.shares.factor;
    if (std::abs(number - std::floor(number) - 0.5) < 1e-4) return {};
    const double share = Whole(p.shares, number);
    for (int64_t d = 0; d < p.head_size; ++d) {
      result[static_cast<size_t>(d)] += share * (at(in.v, p.keys, key, d) - p.v_zero);
    }
  }
  for (double& x : result) x = Whole(p.result, x * double{p.result.factor}) + p.y_zero;
  return result;
}

class CodeAttentionTest : public ContextTest {
 protected:
  const char* Lacks(const device::DeviceInfo& device) const override {
    return kernels::HasTensorCores(DataType::kFloat16, device) ? nullptr : "no tensor cores";
  }
  bool has_warpgroups() const { return kernels::HasWarpgroups(context_->device_info()); }

  template <class T>
  void* Upload(const std::vector<T>& from, size_t offset = 0) {
    const size_t bytes = from.size() * sizeof(T);
    auto* const to = static_cast<std::byte*>(Allocate(bytes + offset)) + offset;
    Check(device::MemcpyAsync(to, from.data(), bytes, stream()));
    return to;
  }

  void CheckCase(const Case& c) {
    SCOPED_TRACE(::testing::Message() << c);
    const CodeAttention p = Problem(c);
    std::mt19937 generator(1);
    const auto codes = [&](int64_t rows) {
      std::vector<int8_t> all;
      for (int64_t i = 0; i < kMatrices * rows * c.head; ++i) {
        all.push_back(static_cast<int8_t>(generator() % 256 - 128));
      }
      return all;
    };
    Inputs in{.q = codes(c.queries), .k = codes(c.keys), .v = codes(c.keys), .numbers = {}, .of_codes = {}};
    for (int64_t i = 0; i < kBatch * c.keys; ++i) {
      in.numbers.push_back(i % 3 == 1 ? -1e30f : static_cast<float>(i % 7));
      in.of_codes.push_back(static_cast<uint8_t>(generator()));
    }
    if (c.keys > 3) in.numbers[3] = std::numeric_limits<float>::quiet_NaN();
    const int64_t row_elems = c.head + kBeside;
    std::vector<int8_t> result(static_cast<size_t>(kMatrices * c.queries * row_elems), kUntouched);
    void* const y = Upload(result, c.offset);
    Check(kernels::LaunchCodeAttention(p,
                                       {.q = Upload(in.q, c.offset),
                                        .k = Upload(in.k, c.offset),
                                        .v = Upload(in.v, c.offset),
                                        .mask = c.mask == DataType::kFloat ? Upload(in.numbers) : Upload(in.of_codes),
                                        .y = y},
                                       context_->stream()));
    Check(device::MemcpyAsync(result.data(), y, result.size(), stream()));
    Check(device::StreamSynchronize(stream()));

    int64_t wrong = 0, touched = 0, ties = 0;
    std::set<double> seen;
    for (int64_t row = 0; row < kMatrices * c.queries; ++row) {
      const int8_t* const got = result.data() + row * row_elems;
      touched += std::count_if(got + c.head, got + row_elems, [](int8_t code) { return code != kUntouched; });
      const std::vector<double> wanted = ExpectedRow(p, in, row / c.queries, row % c.queries);
      ties += wanted.empty();
      for (size_t d = 0; d < wanted.size(); ++d) wrong += got[d] != wanted[d];
      seen.insert(wanted.begin(), wanted.end());
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(touched, 0);
    EXPECT_LT(ties, kMatrices * c.queries / 2);
    EXPECT_GT(seen.size(), 16u);
  }
};

TEST_F(CodeAttentionTest, WarpsTakeEveryNumberOfKeys) {
  for (const int64_t keys : {5, 64, 65, 128, 129, 300}) {
    for (const DataType mask : {DataType::kUndefined, DataType::kFloat}) {
      for (const Kernel kernel : {Kernel::kWarps, Kernel::kKeyWarps}) {
        CheckCase({.kernel = kernel, .keys = keys, .mask = mask, .offset = keys % 2 == 0 ? 0u : 1u});
      }
    }
  }
}

TEST_F(CodeAttentionTest, WarpgroupsTakeEveryNumberOfKeys) {
  if (!has_warpgroups()) GTEST_SKIP() << "no warpgroups";
  constexpr auto kKernel = Kernel::kWarpgroup;
  for (const int64_t keys : {1, 5, 63, 64, 65, 127, 128}) {
    CheckCase({.kernel = kKernel, .queries = 66, .keys = keys, .scaled = keys % 2 == 0});
    CheckCase({.kernel = kKernel, .queries = 66, .keys = keys, .mask = DataType::kFloat, .scaled = keys % 2 != 0});
  }
}

TEST_F(CodeAttentionTest, WarpgroupsTakeEveryNumberOfQueries) {
  if (!has_warpgroups()) GTEST_SKIP() << "no warpgroups";
  for (const int64_t queries : {1, 15, 64, 65, 128, 129}) {
    CheckCase({.kernel = Kernel::kWarpgroup, .queries = queries});
  }
}

class CodeAttentionKernelTest : public CodeAttentionTest, public ::testing::WithParamInterface<Kernel> {
 protected:
  const char* Lacks(const device::DeviceInfo& device) const override {
    if (GetParam() == Kernel::kWarpgroup && !kernels::HasWarpgroups(device)) return "no warpgroups";
    return CodeAttentionTest::Lacks(device);
  }
};
INSTANTIATE_TEST_SUITE_P(EachKernel, CodeAttentionKernelTest, ::testing::Values(Kernel::kWarps, Kernel::kWarpgroup));

TEST_P(CodeAttentionKernelTest, HeadsOfEachSize) {
  for (const int64_t head : {16, 32, 48, 64}) CheckCase({.kernel = GetParam(), .keys = 100, .head = head});
}

TEST_P(CodeAttentionKernelTest, MasksOfEachType) {
  for (const DataType mask : {DataType::kFloat, DataType::kInt8, DataType::kUint8}) {
    for (const bool one : {false, true}) {
      CheckCase({.kernel = GetParam(), .keys = 128, .mask = mask, .scaled = one, .one_mask = one});
    }
  }
}

// A share of 1 is one more than the codes have.
TEST_P(CodeAttentionKernelTest, SharesBeyondTheirCodes) {
  for (const int64_t keys : {1, 128}) CheckCase({.kernel = GetParam(), .keys = keys, .most_share = 256});
}

TEST_F(CodeAttentionTest, WhatIsNotAlignedIsWarps) {
  if (!has_warpgroups()) GTEST_SKIP() << "no warpgroups";
  for (const size_t offset : {1u, 8u}) CheckCase({.kernel = Kernel::kWarpgroup, .keys = 128, .offset = offset});
}

TEST_F(CodeAttentionTest, MoreKeysThanWarpgroupsHaveRoomForAreAnError) {
  for (const int64_t keys : {0, 129}) {
    const CodeAttention p = Problem({.kernel = Kernel::kWarpgroup, .keys = keys});
    const Status status = kernels::LaunchCodeAttention(p, {}, context_->stream());
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("warpgroups"), std::string::npos) << status.message();
  }
}

TEST(CodeAttentionPlanTest, TheFastestKernel) {
  device::DeviceInfo device;
  device.multiprocessors = 132;
  const auto kernel = [&](int64_t batch, int64_t keys) {
    return kernels::CodeAttentionKernelOf({.batch = batch, .heads = 12, .queries = 128, .keys = keys, .head_size = 64},
                                          device);
  };
  for (const int major : {8, 10}) {
    device.major = major;
    EXPECT_EQ(kernel(1, 128), Kernel::kKeyWarps);
    EXPECT_EQ(kernel(11, 128), Kernel::kKeyWarps);
    EXPECT_EQ(kernel(12, 128), Kernel::kWarps);
    EXPECT_EQ(kernel(1, 64), Kernel::kWarps);  // the second warp would have none
  }
  device.major = 9;
  EXPECT_EQ(kernel(1, 128), Kernel::kWarpgroup);
  EXPECT_EQ(kernel(1, 64), Kernel::kWarpgroup);
  EXPECT_EQ(kernel(1, 0), Kernel::kWarps);
  EXPECT_EQ(kernel(1, 129), Kernel::kKeyWarps);
  EXPECT_EQ(kernel(32, 129), Kernel::kWarps);
  EXPECT_EQ(kernel(70'000, 128), Kernel::kWarps);  // more than a grid's z
}

TEST(CodeAttentionPlanTest, StepsThatChangeNothing) {
  CodeAttention p;
  p.scores = p.scaled = {.factor = 0.3f, .least = -123, .most = 132};
  const auto idle = [&](float factor, float least) {
    p.scaled = {.factor = factor, .least = least, .most = least + 255};
    return kernels::IsScaledIdle(p);
  };
  EXPECT_TRUE(idle(1, -123));
  EXPECT_TRUE(idle(1 + 0x1p-20f, -123));
  EXPECT_TRUE(idle(1 - 0x1p-9f, -123));  // 132 becomes 131.74
  EXPECT_FALSE(idle(1 - 0x1p-7f, -123));
  EXPECT_FALSE(idle(1 + 0x1p-7f, -123));
  EXPECT_FALSE(idle(1, -122));
  EXPECT_FALSE(idle(1, -124));
  // 127 becomes 126.5 in fp32, a tie, and a little more in fp64.
  p.scores.most = 127;
  EXPECT_FALSE(idle(0x1.fdfbf8p-1f, -123));
  EXPECT_TRUE(idle(0x1.fdfbfap-1f, -123));
}

}  // namespace
}  // namespace cudaep::ops
