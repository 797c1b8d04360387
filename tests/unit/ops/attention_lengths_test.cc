// Decoding and prompts of many lengths: a bounded number of plans, and every row right.
//
// All tokens are known beforehand and attention is causal, so a row of the result is the same whatever was past and
// what came in with it: one reference in double judges every call.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "../device/device_fixture.h"
#include "core/strings.h"
#include "node.h"
#include "ops/planned_operator.h"

namespace cudaep::ops {
namespace {

constexpr int64_t kHeads = 2, kSize = 8, kTokens = 513, kRoom = 600;
constexpr int64_t kWidth = kHeads * kSize;

struct Form {
  const char* name;
  const char* domain;
  const char* op;
  int64_t kv_heads = kHeads;
  bool shared = false;  // past and present are one buffer of kRoom rows
  // Plans for 512 steps of one token, and for prompts of up to 128: eight lengths an octave, from 64 keys or 16 rows
  // on.
  size_t most_of_steps = 26, most_of_prompts = 40;
};

// Of a token, between -1 and 1; `what` tells queries, keys and values apart.
float Value(int what, int64_t token, int64_t column) {
  const auto mixed = static_cast<uint32_t>((token * 131 + column) * 3 + what) * 2654435761u;
  return static_cast<float>(mixed >> 8) / static_cast<float>(1 << 23) - 1.0f;
}

class AttentionLengths : public device::testing::DeviceTest, public ::testing::WithParamInterface<Form> {
 protected:
  const Form& form() const { return GetParam(); }
  bool Is(std::string_view op) const { return op == form().op; }
  bool packed() const { return Is("Attention") && form().domain[0] != 0; }
  // Of packed Attention keys and values are multiples of the hidden state.
  float Token(int what, int64_t token, int64_t column) const {
    return packed() ? Value(0, token, column) * (what == 0   ? 1.0f
                                                 : what == 1 ? 2.0f
                                                             : -1.0f)
                    : Value(what, token, column);
  }

  void SetUp() override {
    DeviceTest::SetUp();
    reference_.resize(static_cast<size_t>(kTokens * kWidth));
    const int64_t group = kHeads / form().kv_heads;
    for (int64_t row = 0; row < kTokens; ++row) {
      for (int64_t head = 0; head < kHeads; ++head) {
        const int64_t kv = head / group * kSize;
        double total = 0;
        double* const y = &reference_[static_cast<size_t>(row * kWidth + head * kSize)];
        for (int64_t key = 0; key <= row; ++key) {
          double score = 0;
          for (int64_t d = 0; d < kSize; ++d) {
            score += double{Token(0, row, head * kSize + d)} * double{Token(1, key, kv + d)};
          }
          const double weight = std::exp(score / std::sqrt(double{kSize}));
          total += weight;
          for (int64_t d = 0; d < kSize; ++d) y[d] += weight * double{Token(2, key, kv + d)};
        }
        for (int64_t d = 0; d < kSize; ++d) y[d] /= total;
      }
    }
  }

  // Inputs, in their order. Device memory but for `host`.
  void Add(std::vector<int64_t> dims, const std::vector<float>& values) {
    AddView(DataType::kFloat, std::move(dims), Upload(values));
  }
  void Add(std::vector<int64_t> dims, const std::vector<int32_t>& values, bool host) {
    if (host) host_value_ = values[0];
    AddView(DataType::kInt32, std::move(dims), host ? &host_value_ : Upload(values));
  }
  void AddNone() { AddView(DataType::kUndefined, {}, nullptr); }
  void AddView(DataType type, std::vector<int64_t> dims, const void* data) {
    dims_.push_back(std::move(dims));
    views_.push_back({.data = data, .type = type});
  }

  std::vector<float> Rows(int what, int64_t first, int64_t count, int64_t width) const {
    std::vector<float> values;
    for (int64_t token = first; token < first + count; ++token) {
      for (int64_t column = 0; column < width; ++column) values.push_back(Token(what, token, column));
    }
    return values;
  }
  // [heads, rows, size]; rows behind `count` hold what nobody may read.
  std::vector<float> HeadsOf(int what, int64_t first, int64_t count, int64_t heads, int64_t rows) const {
    std::vector<float> values(static_cast<size_t>(heads * rows * kSize), NAN);
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t row = 0; row < count; ++row) {
        for (int64_t d = 0; d < kSize; ++d) {
          values[static_cast<size_t>((head * rows + row) * kSize + d)] = Token(what, first + row, head * kSize + d);
        }
      }
    }
    return values;
  }

  void AddInputs(int64_t past, int64_t count) {
    const int64_t kv_heads = form().kv_heads, room = form().shared ? kRoom : past;
    const auto cache = [&](int what) { return HeadsOf(what, 0, past, kv_heads, room); };
    const std::vector<int64_t> cache_dims{1, kv_heads, room, kSize};
    views_.clear(), dims_.clear();
    if (packed()) {
      Add({1, count, kWidth}, Rows(0, past, count, kWidth));
      std::vector<float> weights(static_cast<size_t>(3 * kWidth * kWidth));
      for (int64_t i = 0; i < kWidth; ++i) {
        const float factors[] = {1, 2, -1};
        for (int64_t j = 0; j < 3; ++j) weights[static_cast<size_t>((3 * i + j) * kWidth + i)] = factors[j];
      }
      Add({kWidth, 3 * kWidth}, weights);
      AddNone(), AddNone();
      std::vector<float> both = cache(1);
      for (const float value : cache(2)) both.push_back(value);
      Add({2, 1, kHeads, room, kSize}, both);
      AddNone();
    } else if (Is("Attention")) {
      for (int what = 0; what < 3; ++what) {
        const int64_t heads = what == 0 ? kHeads : kv_heads;
        Add({1, heads, count, kSize}, HeadsOf(what, past, count, heads, count));
      }
      AddNone();
      Add(cache_dims, cache(1)), Add(cache_dims, cache(2));
      return;
    } else {
      for (int what = 0; what < 3; ++what) {
        const int64_t width = what == 0 ? kWidth : kv_heads * kSize;
        Add({1, count, width}, Rows(what, past, count, width));
      }
      if (Is("MultiHeadAttention")) AddNone(), AddNone(), AddNone();
      Add(cache_dims, cache(1)), Add(cache_dims, cache(2));
    }
    const auto length = static_cast<int32_t>(past), total = static_cast<int32_t>(past + count);
    if (Is("GroupQueryAttention")) {
      Add({1}, std::vector<int32_t>{total - 1}, false);
      Add({1}, std::vector<int32_t>{total}, true);
    } else if (form().shared) {
      Add({1}, std::vector<int32_t>{length}, true);
    }
  }

  Status Init(PlannedOperator& planned, DataType type = DataType::kFloat, bool deterministic = false) {
    AddInputs(1, 1);
    test::Node node(form().domain, form().op, form().domain[0] == 0 ? 24 : 1);
    if (form().domain[0] != 0) {
      node.attributes["num_heads"] = kHeads;
      node.attributes["kv_num_heads"] = form().kv_heads;
      node.attributes["unidirectional"] = int64_t{1};
      node.attributes["past_present_share_buffer"] = int64_t{form().shared};
    } else {
      node.attributes["is_causal"] = int64_t{1};
    }
    CUDAEP_RETURN_IF_ERROR(node.SetOption("deterministic_compute", deterministic ? 1 : 0));
    for (const TensorView& view : views_) {
      node.inputs.push_back({.type = view.type == DataType::kFloat ? type : view.type});
    }
    node.outputs.assign(packed() ? 2 : 3, type);
    return planned.Init(node);
  }

  void RunAndCheck(int64_t past, int64_t count) {
    SCOPED_TRACE(StrCat("past ", past, ", new ", count));
    AddInputs(past, count);
    for (size_t i = 0; i < views_.size(); ++i) {
      views_[i].dim = dims_[i].data();
      views_[i].rank = static_cast<int32_t>(dims_[i].size());
    }
    PlanPin pin(context_->plan_pins());
    const Result<PlannedCall> call = planned_.PlanFor(pin, views_, *context_);
    ASSERT_OK(call.status());
    std::vector<void*> outputs;
    for (const Shape& shape : call.value().outputs) outputs.push_back(Allocate<float>(shape.elems()));
    if (form().shared) {
      const size_t first = packed() ? 4 : Is("MultiHeadAttention") ? 6 : 3;
      for (size_t i = 1; i < outputs.size(); ++i) outputs[i] = const_cast<void*>(views_[first + i - 1].data);
    }
    ASSERT_OK(planned_.Enqueue(pin, call.value(), views_, outputs.data(), nullptr, *context_));

    const auto y = Download(static_cast<const float*>(outputs[0]), static_cast<size_t>(count * kWidth));
    ASSERT_OK(device::StreamSynchronize(stream()));
    const bool heads_first = Is("Attention") && !packed();
    for (int64_t i = 0; i < count * kWidth; ++i) {
      const int64_t head = heads_first ? i / kSize / count : i / kSize % kHeads;
      const int64_t row = heads_first ? i / kSize % count : i / kWidth;
      const double wanted = reference_[static_cast<size_t>((past + row) * kWidth + head * kSize + i % kSize)];
      ASSERT_NEAR(double{y[static_cast<size_t>(i)]}, wanted, 2e-6) << "row " << row << " head " << head;
    }
    // The last key in the cache.
    const auto present = Download(static_cast<const float*>(outputs[1]), static_cast<size_t>((past + count) * kSize));
    ASSERT_OK(device::StreamSynchronize(stream()));
    ASSERT_EQ(present[static_cast<size_t>((past + count - 1) * kSize)], Token(1, past + count - 1, 0));
  }

  std::vector<double> reference_;
  std::vector<std::vector<int64_t>> dims_;
  std::vector<TensorView> views_;
  int32_t host_value_ = 0;
  PlannedOperator planned_;
  std::unique_ptr<StreamContext> context_;
};

TEST_P(AttentionLengths, AFewPlansServeAllOfThem) {
  ASSERT_OK(Init(planned_));
  context_ = std::make_unique<StreamContext>(0, stream());
  for (int64_t past = 1; past < kTokens; ++past) {
    RunAndCheck(past, 1);
    if (HasFatalFailure()) return;
  }
  EXPECT_LE(planned_.plan_count(), form().most_of_steps);
  EXPECT_GE(planned_.plan_count(), 2u);  // otherwise the lines before show nothing
  const size_t of_steps = planned_.plan_count();
  std::mt19937 random(7);
  for (int prompt = 0; prompt < 80; ++prompt) {
    RunAndCheck(0, 1 + random() % 128);
    if (HasFatalFailure()) return;
  }
  EXPECT_LE(planned_.plan_count() - of_steps, form().most_of_prompts);
  context_.reset();
}

// A stream takes a handle where calls may need one, and only there.
TEST_P(AttentionLengths, WhatMayBeTheLibrarysDeclaresIt) {
  const auto declares = [&](DataType type, bool deterministic) {
    PlannedOperator planned;
    EXPECT_TRUE(Init(planned, type, deterministic).ok());
    return planned.op().libraries().dnn;
  };
  EXPECT_TRUE(declares(DataType::kFloat16, false));
  EXPECT_FALSE(declares(DataType::kFloat16, true));
  EXPECT_FALSE(declares(DataType::kFloat, false));
}

constexpr const char* kMicrosoft = "com.microsoft";

INSTANTIATE_TEST_SUITE_P(
    Forms, AttentionLengths,
    ::testing::Values(
        Form{.name = "Onnx", .domain = "", .op = "Attention", .kv_heads = 1},
        Form{.name = "Groups", .domain = kMicrosoft, .op = "GroupQueryAttention", .kv_heads = 1},
        Form{.name = "GroupsShared", .domain = kMicrosoft, .op = "GroupQueryAttention", .kv_heads = 1, .shared = true},
        Form{.name = "MultiHead", .domain = kMicrosoft, .op = "MultiHeadAttention"},
        Form{.name = "MultiHeadShared", .domain = kMicrosoft, .op = "MultiHeadAttention", .shared = true},
        Form{.name = "PackedShared", .domain = kMicrosoft, .op = "Attention", .shared = true}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace cudaep::ops
