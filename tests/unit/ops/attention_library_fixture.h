// Calls of attention that the vendor library may take, and what they come to.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "../lib/device_fixture.h"
#include "device/device_info.h"
#include "ops/attention/attention_step.h"

namespace cudaep::ops {

using kernels::AttentionPointers;
using kernels::AttentionProblem;

inline constexpr int64_t kRows = 128, kMostRows = 192, kHeads = 2, kSize = 72;

// Of kRows rows, so that they are many for the device.
inline int64_t Batch(const device::DeviceInfo& device) {
  return static_cast<int64_t>(
      std::ceil(AttentionLibrary::kLeastMultiplications * device.multiprocessors / (kHeads * kRows * kRows * kSize)));
}

class AttentionLibraryTest : public DeviceTest {
 protected:
  AttentionProblem Causal(int64_t rows = kRows, int64_t kv_heads = 1) const {
    AttentionProblem p;
    p.type = DataType::kFloat16;
    p.batch = Batch(stream_->device_info()), p.heads = kHeads, p.kv_heads = kv_heads, p.queries = p.keys = rows;
    p.head_size = p.v_head_size = kSize;
    p.q = p.y = RowsFirst(kHeads, rows, kSize);
    p.k = p.v = HeadsFirst(kv_heads, rows, kSize);
    p.scale = 0.0625;
    p.right = 0;
    return p;
  }

  void SetUp() override {
    DeviceTest::SetUp();
    stream_ = std::make_unique<StreamContext>(0, stream());
    const int64_t most = (2 * Batch(stream_->device_info()) + 1) * kMostRows * kHeads * kSize;
    for (std::vector<double>* const values : {&q_, &k_, &v_})
      *values = TestValues(most, 1 + static_cast<int>(values - &q_));
    at_ = {
        .q = Upload(DataType::kFloat16, q_), .k = Upload(DataType::kFloat16, k_), .v = Upload(DataType::kFloat16, v_)};
    at_.y = Allocate(static_cast<size_t>(most) * 2);
    at_.scratch = Allocate(AttentionLibrary::kWorkspaceBytes);
  }
  void TearDown() override {
    PlanStore::Process().WaitForBackground();
    stream_.reset();
    DeviceTest::TearDown();
  }

  OpContext Context() { return {.inputs = {}, .outputs = nullptr, .workspace = at_.scratch, .runtime = *stream_}; }

  // Whether the library takes the problem once it had it often enough.
  bool IsTaken(const AttentionProblem& problem, const AttentionPointers& at) {
    AttentionLibrary library;
    for (int call = 0; call < AttentionLibrary::kCalls; ++call) {
      EXPECT_FALSE(library.Enqueue(Context(), problem, at).value());
    }
    PlanStore::Process().WaitForBackground();
    return library.Enqueue(Context(), problem, at).value();
  }
  bool IsTaken(const AttentionProblem& problem) { return IsTaken(problem, at_); }

  // Of a query of each head of an entry.
  void ExpectRow(const AttentionProblem& p, int64_t query, int64_t entry = 0) {
    const int64_t keys = p.right == 0 ? std::min(p.keys, query + 1) : p.keys;
    const auto y = Download(DataType::kFloat16, at_.y, (entry + 1) * p.y.batch);
    for (int64_t head = 0; head < kHeads; ++head) {
      const int64_t kv = entry * p.k.batch + head / (kHeads / p.kv_heads) * p.k.head;
      const int64_t row = entry * p.q.batch + query * p.q.row + head * kSize;
      const kernels::ScoreStrides& bias = p.bias_strides;
      std::vector<double> sums(kSize);
      double total = 0;
      for (int64_t key = 0; key < keys; ++key) {
        double score = 0;
        for (int64_t d = 0; d < kSize; ++d) {
          score += q_[static_cast<size_t>(row + d)] * k_[static_cast<size_t>(kv + key * kSize + d)];
        }
        const int64_t added = entry * bias.batch + head * bias.head + query * bias.query + key;
        const double weight = std::exp(score * p.scale + (p.bias ? bias_[static_cast<size_t>(added)] : 0));
        total += weight;
        for (int64_t d = 0; d < kSize; ++d)
          sums[static_cast<size_t>(d)] += weight * v_[static_cast<size_t>(kv + key * kSize + d)];
      }
      for (int64_t d = 0; d < kSize; ++d) {
        ASSERT_NEAR(y[static_cast<size_t>(row + d)], sums[static_cast<size_t>(d)] / total, 4e-3)
            << "query " << query << " of entry " << entry << ", " << p.keys << " keys";
      }
    }
  }
  void ExpectLastRow(const AttentionProblem& p) { ExpectRow(p, p.queries - 1); }

  std::vector<double> q_, k_, v_, bias_;
  AttentionPointers at_;
  std::unique_ptr<StreamContext> stream_;
};

// A GPU's library may be too old for a graph: that is no failure, but nothing is shown then.
#if defined(CUDAEP_SIMULATED_DEVICE)
#define SKIP_WHERE_REFUSED(taken) ASSERT_TRUE(taken)
#else
#define SKIP_WHERE_REFUSED(taken) \
  if (!(taken)) GTEST_SKIP() << "the library refuses"
#endif

}  // namespace cudaep::ops
