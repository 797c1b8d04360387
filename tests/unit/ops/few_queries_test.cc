// Attention of few queries, whose keys are in parts or not, beside sums in fp64.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "context_fixture.h"
#include "core/strings.h"
#include "kernels/attention/attention.h"
#include "kernels/common/tensor_cores.h"

namespace cudaep::ops {
namespace {

using kernels::AttentionMask;
using kernels::AttentionProblem;

struct Sizes {
  int64_t heads, kv_heads, queries, keys;
};

class FewQueriesTest : public ContextTest {
 protected:
  static constexpr int64_t kBatch = 3;

  const char* Lacks(const device::DeviceInfo& device) const override {
    return kernels::HasTensorCores(DataType::kBFloat16, device) ? nullptr : "no tensor cores";
  }

  static AttentionProblem Problem(DataType type, const Sizes& s, int64_t size) {
    AttentionProblem p;
    p.type = type;
    p.batch = kBatch, p.heads = s.heads, p.kv_heads = s.kv_heads, p.queries = s.queries, p.keys = s.keys;
    p.head_size = p.v_head_size = size;
    p.q = p.y = {s.heads * s.queries * size, s.queries * size, size};
    p.k = p.v = {s.kv_heads * s.keys * size, s.keys * size, size};
    p.scale = 1.0 / std::sqrt(static_cast<double>(size));
    p.past = s.keys - s.queries;
    p.right = 0;
    return p;
  }

  template <class T>
  const T* Raw(const std::vector<T>& values) {
    void* const to = Allocate(values.size() * sizeof(T));
    Check(device::MemcpyAsync(to, values.data(), values.size() * sizeof(T), stream()));
    return static_cast<const T*>(to);
  }

  // In one part, in three and in eight; each twice with the same bits.
  void Expect(const AttentionProblem& p) {
    const auto q = TestValues(p.batch * p.q.batch, 1), k = TestValues(p.batch * p.k.batch, 2);
    const auto v = TestValues(p.batch * p.v.batch, 3), bias = TestValues(p.batch * p.keys, 4);
    kernels::AttentionPointers at = {.q = Upload(p.type, q), .k = Upload(p.type, k), .v = Upload(p.type, v)};
    if (p.bias) at.bias = Upload(p.type, bias);
    if (p.mask != AttentionMask::kNone) at.mask = Raw(mask_);
    if (!key_end_.empty()) at.key_end = Raw(key_end_);
    if (!key_begin_.empty()) at.key_begin = Raw(key_begin_);
    const std::vector<double> wanted = Wanted(p, q, k, v, bias);
    const auto count = static_cast<int64_t>(wanted.size());
    for (const int splits : {1, 3, 8}) {
      SCOPED_TRACE(StrCat(DataTypeName(p.type), ' ', p.heads, " heads of ", p.kv_heads, ", ", p.queries, " x ", p.keys,
                          " x ", p.head_size, ", splits ", splits));
      auto plan = kernels::PlanAttention(p, context_->device_info(), {.splits = splits, .few_queries = true});
      ASSERT_TRUE(plan.ok()) << plan.status().ToString();
      at.scratch = Allocate(plan->scratch_bytes);
      std::vector<double> found[2];
      for (std::vector<double>& result : found) {
        at.y = Allocate(static_cast<size_t>(count) * 2);
        Check(kernels::LaunchAttention(*plan, at, stream()));
        result = Download(p.type, at.y, count);
      }
      for (int64_t i = 0; i < count; ++i) {
        const auto at_i = static_cast<size_t>(i);
        const double bound = RelativeTolerance(p.type) * std::max(1.0, std::fabs(wanted[at_i]));
        ASSERT_EQ(std::isnan(found[0][at_i]), std::isnan(wanted[at_i])) << i;
        if (std::isnan(wanted[at_i])) continue;
        ASSERT_NEAR(found[0][at_i], wanted[at_i], bound) << i;
        ASSERT_EQ(found[0][at_i], found[1][at_i]) << i;
      }
    }
  }

  std::vector<double> Wanted(const AttentionProblem& p, const std::vector<double>& q, const std::vector<double>& k,
                             const std::vector<double>& v, const std::vector<double>& bias) const {
    std::vector<double> y(static_cast<size_t>(p.batch * p.y.batch));
    for (int64_t row = 0; row < p.batch * p.heads * p.queries; ++row) {
      const int64_t b = row / (p.heads * p.queries), h = row / p.queries % p.heads, i = row % p.queries;
      const int64_t end = key_end_.empty() ? p.keys : key_end_[static_cast<size_t>(b)];
      const int64_t begin = key_begin_.empty() ? 0 : key_begin_[static_cast<size_t>(b)];
      const int64_t position = i + (p.from_end ? end - p.queries : p.past);
      const int64_t of_keys = b * p.k.batch + h / (p.heads / p.kv_heads) * p.k.head;
      std::vector<double> scores, sums(static_cast<size_t>(p.head_size));
      std::vector<int64_t> seen;
      double max = -std::numeric_limits<double>::infinity(), total = 0;
      for (int64_t j = std::max(begin, position - p.left); j <= std::min(end - 1, position + p.right); ++j) {
        if (p.mask != AttentionMask::kNone && mask_[static_cast<size_t>(j)] == 0) continue;
        double score = 0;
        for (int64_t d = 0; d < p.head_size; ++d) {
          score += q[static_cast<size_t>(row * p.q.row + d)] * k[static_cast<size_t>(of_keys + j * p.k.row + d)];
        }
        scores.push_back(score * p.scale + (p.bias ? bias[static_cast<size_t>(b * p.keys + j)] : 0));
        seen.push_back(j);
        max = std::max(max, scores.back());
      }
      for (size_t n = 0; n < seen.size(); ++n) {
        const double weight = std::exp(scores[n] - max);
        total += weight;
        for (int64_t d = 0; d < p.head_size; ++d) {
          sums[static_cast<size_t>(d)] += weight * v[static_cast<size_t>(of_keys + seen[n] * p.v.row + d)];
        }
      }
      for (int64_t d = 0; d < p.head_size; ++d) {
        y[static_cast<size_t>(row * p.y.row + d)] =
            total == 0 && !p.empty_is_nan ? 0 : sums[static_cast<size_t>(d)] / total;
      }
    }
    return y;
  }

  template <class Change>
  void ExpectEach(const Sizes& s, Change&& change) {
    for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
      for (const int64_t size : {64, 128}) {
        AttentionProblem p = Problem(type, s, size);
        change(p);
        Expect(p);
      }
    }
  }

  std::vector<int32_t> mask_;       // by key, for all
  std::vector<int64_t> key_end_;    // one a batch entry, or none
  std::vector<int32_t> key_begin_;  // likewise
};

// Groups of 1, 4 and 8 heads, up to 16 rows; fewer keys than parts, and parts of several steps.
TEST_F(FewQueriesTest, CausalRows) {
  for (const Sizes& s : {Sizes{2, 2, 1, 5}, {8, 2, 1, 64}, {8, 1, 2, 150}, {8, 1, 1, 1100}, {2, 2, 13, 700}}) {
    ExpectEach(s, [](AttentionProblem&) {});
  }
}

TEST_F(FewQueriesTest, WindowsMasksAndBiases) {
  const Sizes s{4, 1, 3, 520};
  ExpectEach(s, [](AttentionProblem& p) { p.left = 70; });
  ExpectEach(s, [](AttentionProblem& p) { p.bias = true, p.bias_strides = {.batch = 520, .key = 1, .keys = 520}; });
  for (int i = 0; i < 520; ++i) mask_.push_back(i % 3 != 0 && (i < 100 || i > 300) ? 7 : 0);
  ExpectEach(s, [](AttentionProblem& p) {
    p.mask = AttentionMask::kInt32, p.mask_strides = {.key = 1, .keys = 520};
    p.right = AttentionProblem::kUnbounded;
  });
}

// A cache of which each entry of the batch has another part, one of them nothing.
TEST_F(FewQueriesTest, RangesOfKeys) {
  key_end_ = {640, 3, 0};
  ExpectEach({8, 2, 1, 640}, [](AttentionProblem& p) { p.from_end = true; });
  key_begin_ = {611, 0, 0};
  ExpectEach({8, 2, 1, 640}, [](AttentionProblem& p) { p.from_end = true; });
}

TEST_F(FewQueriesTest, RowsWithoutKeys) {
  mask_.assign(520, 0);
  for (const bool nan : {false, true}) {
    ExpectEach({4, 2, 2, 520}, [&](AttentionProblem& p) {
      p.mask = AttentionMask::kInt32, p.mask_strides = {.key = 1, .keys = 520};
      p.empty_is_nan = nan;
    });
  }
}

}  // namespace
}  // namespace cudaep::ops
