// Attention of codes by the kernel itself, however many warps share rows.
#include "kernels/quant/code_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "context_fixture.h"
#include "kernels/common/tensor_cores.h"

namespace cudaep::ops {
namespace {

using kernels::CodeAttention;
using kernels::CodeAttentionStep;

struct Tensor {
  std::vector<int8_t> codes;
  void* data = nullptr;
};

class CodeAttentionTest : public ContextTest {
 protected:
  const char* Lacks(const device::DeviceInfo& device) const override {
    return kernels::HasTensorCores(DataType::kFloat16, device) ? nullptr : "no tensor cores";
  }

  void* Upload(const void* from, size_t bytes, size_t offset = 0) {
    auto* const to = static_cast<std::byte*>(Allocate(bytes + offset)) + offset;
    Check(device::MemcpyAsync(to, from, bytes, stream()));
    return to;
  }
  Tensor Codes(int64_t count, uint32_t seed, size_t offset) {
    std::mt19937 generator(seed);
    Tensor tensor;
    for (int64_t i = 0; i < count; ++i) tensor.codes.push_back(static_cast<int8_t>(generator() % 256 - 128));
    tensor.data = Upload(tensor.codes.data(), tensor.codes.size(), offset);
    return tensor;
  }

  // `offset`: bytes beside an aligned address. Rows of queries follow each other, and so do heads.
  void CheckKeys(int64_t keys, bool masked, size_t offset, int key_warps) {
    SCOPED_TRACE(::testing::Message() << keys << " keys, mask " << masked << ", offset " << offset << ", " << key_warps
                                      << " key warps");
    constexpr int64_t kBatch = 2, kHeads = 2, kQueries = 37, kHead = 32;
    CodeAttention p{.batch = kBatch, .heads = kHeads, .queries = kQueries, .keys = keys, .head_size = kHead};
    p.q = p.y = {.batch = kHeads * kQueries * kHead, .head = kQueries * kHead, .row = kHead};
    p.k = p.v = {.batch = kHeads * keys * kHead, .head = keys * kHead, .row = kHead};
    p.q_zero = 4, p.k_zero = -7, p.v_zero = 9, p.y_zero = 3;
    p.scores = {.factor = 0x1p-9f, .least = -123, .most = 132};
    p.masked = {.factor = 0.875f, .least = -200, .most = 55};
    p.shares = {.factor = 255, .least = 0, .most = 255};
    p.result = {.factor = 0x1p-8f, .least = -131, .most = 124};
    p.exponent = 0.0625f;
    p.key_warps = key_warps;
    if (masked) p.mask = DataType::kFloat, p.mask_factor = 0.5f, p.mask_stride = keys;
    const Tensor q = Codes(kBatch * kHeads * kQueries * kHead, 1, offset);
    const Tensor k = Codes(kBatch * kHeads * keys * kHead, 2, offset),
                 v = Codes(kBatch * kHeads * keys * kHead, 3, offset);
    std::vector<float> mask;
    for (int64_t i = 0; i < kBatch * keys; ++i) mask.push_back(i % 3 == 1 ? -1e30f : static_cast<float>(i % 7));
    std::vector<int8_t> result(q.codes.size(), 77);
    void* const y = Upload(result.data(), result.size(), offset);
    Check(kernels::LaunchCodeAttention(
        p, {.q = q.data, .k = k.data, .v = v.data, .mask = Upload(mask.data(), mask.size() * sizeof(float)), .y = y},
        context_->stream()));
    Check(device::MemcpyAsync(result.data(), y, result.size(), stream()));
    Check(device::StreamSynchronize(stream()));

    const auto whole = [](const CodeAttentionStep& step, double x) {
      return std::clamp(std::nearbyint(x), double{step.least}, double{step.most});
    };
    int64_t wrong = 0, ties = 0;
    for (int64_t matrix = 0; matrix < kBatch * kHeads; ++matrix) {
      const auto at = [&](const Tensor& tensor, int64_t rows, int64_t row, int64_t d) {
        return tensor.codes[static_cast<size_t>((matrix * rows + row) * kHead + d)];
      };
      for (int64_t row = 0; row < kQueries; ++row) {
        std::vector<double> score;
        for (int64_t key = 0; key < keys; ++key) {
          int sum = 0;
          for (int64_t d = 0; d < kHead; ++d) {
            sum += (at(q, kQueries, row, d) - p.q_zero) * (at(k, keys, key, d) - p.k_zero);
          }
          double x = whole(p.scores, sum * double{p.scores.factor});
          const double added = double{mask[static_cast<size_t>(matrix / kHeads * keys + key)]} * p.mask_factor;
          if (masked) x = whole(p.masked, x * p.masked.factor + added);
          score.push_back(x);
        }
        const double most = *std::ranges::max_element(score);
        double total = 0;
        for (const double x : score) total += std::exp2((x - most) * p.exponent);
        bool is_tie = false;
        std::vector<double> share;
        for (const double x : score) {
          const double number = std::exp2((x - most) * p.exponent) / total * p.shares.factor;
          is_tie |= std::abs(number - std::floor(number) - 0.5) < 1e-4;
          share.push_back(whole(p.shares, number));
        }
        ties += is_tie;
        for (int64_t d = 0; d < kHead && !is_tie; ++d) {
          double sum = 0;
          for (int64_t key = 0; key < keys; ++key) {
            sum += share[static_cast<size_t>(key)] * (at(v, keys, key, d) - p.v_zero);
          }
          const double wanted = whole(p.result, sum * double{p.result.factor}) + p.y_zero;
          wrong += result[static_cast<size_t>((matrix * kQueries + row) * kHead + d)] != wanted;
        }
      }
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_LT(ties, kBatch * kHeads * kQueries / 2);
  }
};

TEST_F(CodeAttentionTest, EveryNumberOfKeys) {
  for (const int64_t keys : {5, 64, 65, 128, 129, 300}) {
    for (const bool masked : {false, true}) {
      for (const int key_warps : {1, 2}) CheckKeys(keys, masked, keys % 2 == 0 ? 0 : 1, key_warps);
    }
  }
}

TEST_F(CodeAttentionTest, NumbersOfWarpsThatShareRows) {
  for (const int key_warps : {0, 3, 4}) {
    CodeAttention p{.batch = 1, .heads = 1, .queries = 1, .keys = 1, .head_size = 16};
    p.key_warps = key_warps;
    EXPECT_EQ(kernels::LaunchCodeAttention(p, {}, context_->stream()).code(), StatusCode::kInvalidArgument);
  }
  device::DeviceInfo device;
  device.multiprocessors = 132;
  const auto warps = [&](int64_t batch, int64_t keys) {
    return kernels::KeyWarpsOf({.batch = batch, .heads = 12, .queries = 128, .keys = keys, .head_size = 64}, device);
  };
  EXPECT_EQ(warps(1, 128), 2);
  EXPECT_EQ(warps(11, 128), 2);
  EXPECT_EQ(warps(12, 128), 1);
  EXPECT_EQ(warps(1, 64), 1);  // the second warp would have none
}

}  // namespace
}  // namespace cudaep::ops
