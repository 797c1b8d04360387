// Attention as a choice says it runs, compared with float64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "../device/device_fixture.h"
#include "core/data_type_traits.h"
#include "core/strings.h"
#include "device/device_info.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/flash.h"

namespace cudaep::kernels {

class AttentionTest : public device::testing::DeviceInfoTest {
 protected:
  // Heads first and contiguous; query i sees the keys up to i + past.
  static AttentionProblem Problem(DataType type, int64_t heads, int64_t kv_heads, int64_t queries, int64_t keys,
                                  int64_t size, int64_t v_size) {
    AttentionProblem p;
    p.type = type;
    p.compute = type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
    p.batch = 2, p.heads = heads, p.kv_heads = kv_heads, p.queries = queries, p.keys = keys;
    p.head_size = size, p.v_head_size = v_size;
    p.q = {heads * queries * size, queries * size, size};
    p.k = {kv_heads * keys * size, keys * size, size};
    p.v = {kv_heads * keys * v_size, keys * v_size, v_size};
    p.y = {heads * queries * v_size, queries * v_size, v_size};
    p.scale = 1.0 / std::sqrt(static_cast<double>(size));
    p.past = keys - queries;
    p.right = 0;
    return p;
  }

  template <class T>
  static std::vector<T> Values(int64_t count, uint32_t seed) {
    std::vector<T> values(static_cast<size_t>(count));
    for (T& value : values) {
      seed = seed * 1664525u + 1013904223u;
      value = Store<T>(static_cast<ComputeType<T>>(static_cast<double>(seed >> 16) / 32768.0 - 1.0));
    }
    return values;
  }

  template <DataType type>
  void Check(const AttentionProblem& p, const AttentionChoice& choice, double tolerance) {
    using T = CppType<type>;
    SCOPED_TRACE(StrCat(DataTypeName(type), " warps ", choice.warps, " packed ", choice.packed, " tile ",
                        choice.value_tile, " depth ", choice.depth, " splits ", choice.splits, " whole rows ",
                        choice.whole_rows_warps, " window ", choice.window_warps,
                        choice.few_queries ? " few queries" : "", choice.warpgroup_heads ? " warpgroup heads" : ""));
    const auto plan = PlanAttention(p, info_, choice);
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    EXPECT_TRUE(choice.splits == 0 || plan.value().splits == choice.splits);
    EXPECT_TRUE(choice.packed == 0 || plan.value().packed == choice.packed);
    std::vector<T> q = Values<T>(p.batch * p.q.batch, 1), k = Values<T>(p.batch * p.k.batch, 2);
    const std::vector<T> v = Values<T>(p.batch * p.v.batch, 3);
    const auto narrow = [](double x) { return Store<T>(static_cast<ComputeType<T>>(x)); };
    if (special_) k[static_cast<size_t>(p.head_size - 1)] = narrow(*special_);
    for (size_t i = 0; !q_row_.empty() && i < q.size(); ++i) q[i] = narrow(q_row_[i % q_row_.size()]);
    for (size_t i = 0; !q_row_.empty() && i < k.size(); ++i) {
      const bool later = static_cast<int64_t>(i) / p.k.row % p.keys >= 128;
      k[i] = narrow((later ? k_later_ : k_first_)[i % q_row_.size()]);
    }
    const auto count = static_cast<size_t>(p.batch * p.y.batch);
    std::vector<T> bias = Values<T>(kAddedElems, 4);
    for (size_t i = 0; hidden_bias_ && i < bias.size(); ++i) {
      if (hidden_bias_(static_cast<int64_t>(i))) bias[i] = narrow(-std::numeric_limits<double>::infinity());
    }
    T* const y = Allocate<T>(count);
    const AttentionPointers at = {.q = Upload(q),
                                  .k = Upload(k),
                                  .v = Upload(v),
                                  .y = y,
                                  .mask = p.mask_strides.keys == 0 ? nullptr : Upload(mask_),
                                  .bias = p.bias_strides.keys == 0 ? nullptr : Upload(bias),
                                  .key_end = p.from_end ? Upload(key_end_) : nullptr,
                                  .scratch = Allocate<std::byte>(plan.value().scratch_bytes + 1)};
    const FlashArguments arguments = MakeFlashArguments(plan.value(), at);
    EXPECT_TRUE(choice.window_warps == 0 || TakesWindows(arguments) == takes_windows_);
    EXPECT_TRUE(choice.whole_rows_warps == 0 || TakesWholeHead(arguments) == takes_whole_head_);
    EXPECT_TRUE(!choice.warpgroup_heads ||
                (TakesWholeHead(arguments) && arguments.y_aligned != 0) == takes_whole_head_);
    EXPECT_TRUE(!choice.warpgroup_heads || TakesWarpgroupBias(arguments) == takes_warpgroup_bias_);
    ASSERT_OK(LaunchAttention(plan.value(), at, stream()));
    const std::vector<T> result = Download(y, count);
    const std::vector<double> wide_q = Wide(q), wide_k = Wide(k), wide_v = Wide(v), wide_bias = Wide(bias);
    for (int64_t b = 0; b < p.batch; ++b) {
      for (int64_t h = 0; h < p.heads; ++h) {
        for (int64_t i = 0; i < p.queries; ++i)
          CheckRow(p, wide_q.data(), wide_k.data(), wide_v.data(), wide_bias.data(), result.data(), b, h, i, tolerance);
      }
    }
  }

  template <class T>
  static std::vector<double> Wide(const std::vector<T>& values) {
    std::vector<double> wide;
    wide.reserve(values.size());
    for (const T value : values) wide.push_back(static_cast<double>(Load(value)));
    return wide;
  }

  template <class T>
  void CheckRow(const AttentionProblem& p, const double* q, const double* k, const double* v, const double* bias,
                const T* y, int64_t b, int64_t h, int64_t i, double tolerance) {
    const int64_t kv = h / (p.heads / p.kv_heads);
    std::vector<double> sums(static_cast<size_t>(p.v_head_size)), scores;
    std::vector<int64_t> seen;
    double total = 0, max = -std::numeric_limits<double>::infinity();
    const int64_t position = i + (p.from_end ? key_end_[static_cast<size_t>(b)] - p.queries : p.past);
    for (int64_t j = 0; j < p.keys; ++j) {
      if (j < position - p.left || j > position + p.right) continue;
      double score = 0;
      for (int64_t d = 0; d < p.head_size; ++d) {
        score += q[b * p.q.batch + h * p.q.head + i * p.q.row + d] * k[b * p.k.batch + kv * p.k.head + j * p.k.row + d];
      }
      const auto index = [&](const ScoreStrides& s) {
        return (s.batches == 0 ? b : b % s.batches) * s.batch + h * s.head + i * s.query + j * s.key;
      };
      double added = 0;
      if (p.from_end && j >= key_end_[static_cast<size_t>(b)]) added += p.masked;
      if (p.mask != AttentionMask::kNone) {
        if (j >= p.mask_strides.keys) continue;
        if (mask_[static_cast<size_t>(index(p.mask_strides))] == 0) added += p.masked;
      }
      if (p.bias) {
        if (j >= p.bias_strides.keys) continue;
        added += bias[index(p.bias_strides)];
      }
      scores.push_back(score * p.scale + added);
      seen.push_back(j);
      max = std::max(max, scores.back());
    }
    for (size_t n = 0; n < seen.size(); ++n) {
      const int64_t j = seen[n];
      const bool hidden = std::isinf(scores[n]) && scores[n] < 0;  // or there were NaN where all are
      const double weight = hidden ? 0 : std::exp(scores[n] - max);
      total += weight;
      for (int64_t d = 0; d < p.v_head_size; ++d) {
        sums[static_cast<size_t>(d)] += weight * v[b * p.v.batch + kv * p.v.head + j * p.v.row + d];
      }
    }
    for (int64_t d = 0; d < p.v_head_size; ++d) {
      const double wanted = total == 0 && !p.empty_is_nan ? 0 : sums[static_cast<size_t>(d)] / total;
      const auto found = static_cast<double>(Load(y[b * p.y.batch + h * p.y.head + i * p.y.row + d]));
      ASSERT_EQ(std::isnan(found), std::isnan(wanted));
      ASSERT_TRUE(std::isnan(wanted) || std::fabs(found - wanted) <= tolerance)
          << found << " for " << wanted << " batch " << b << ", head " << h << ", query " << i << ", column " << d;
    }
  }

  // What calls are whose plan has the kernel of windows, or one that has all keys of a head at once.
  bool takes_windows_ = true, takes_whole_head_ = true, takes_warpgroup_bias_ = false;
  std::optional<double> special_;             // an element of the first key
  std::function<bool(int64_t)> hidden_bias_;  // which elements of the bias are minus infinity; empty: none
  // If any: each row of the queries, of the first 128 keys and of the rest.
  std::vector<double> q_row_, k_first_, k_later_;
  static constexpr int64_t kAddedElems = 4 * 64 * 64;
  const std::vector<uint8_t> kThirdsHidden = [] {
    std::vector<uint8_t> mask(kAddedElems);
    for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % 3 != 0 ? 1 : 0;
    return mask;
  }();
  std::vector<uint8_t> mask_ = kThirdsHidden;
  std::vector<int64_t> key_end_ = {150, 71};
};

}  // namespace cudaep::kernels
