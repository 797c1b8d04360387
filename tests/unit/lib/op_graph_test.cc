// Graphs of operations against a host reference: attention from strided tensors, with a broadcast bias, causal, of
// groups of heads.
#include "lib/op_graph.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "device_fixture.h"
#include "lib/dnn.h"

namespace cudaep::dnn {
namespace {

constexpr int64_t kBatch = 2, kHeads = 4, kLength = 64, kWidth = 64;

struct Form {
  const char* name;
  bool bias = false, causal = false;
  int64_t kv_heads = kHeads;
};

// Heads of Q, K and V lie one after another in rows of one tensor, [batch, length, heads, width]; so do the result's.
AttentionShape PackedAttention(const Form& form) {
  const int64_t row = (kHeads + 2 * form.kv_heads) * kWidth;
  AttentionShape s{.batch = kBatch,
                   .heads = kHeads,
                   .kv_heads = form.kv_heads,
                   .queries = kLength,
                   .keys = kLength,
                   .width = kWidth,
                   .causal = form.causal};
  s.q_strides = s.k_strides = s.v_strides = Shape{kLength * row, kWidth, row, 1};
  s.out_strides = Shape{kLength * kHeads * kWidth, kWidth, kHeads * kWidth, 1};
  s.scale = 0.125f;
  if (form.bias) {
    s.bias_dims = Shape{kBatch, 1, 1, kLength};
    s.bias_strides = Shape{kLength, kLength, kLength, 1};
  }
  return s;
}

std::vector<double> Attention(const Form& form, const std::vector<double>& packed, const std::vector<double>& bias,
                              double scale) {
  const auto at = [&](int64_t n, int64_t position, int64_t part, int64_t head, int64_t i) {
    if (part != 0) head = kHeads + (part - 1) * form.kv_heads + head / (kHeads / form.kv_heads);
    return packed[static_cast<size_t>(((n * kLength + position) * (kHeads + 2 * form.kv_heads) + head) * kWidth + i)];
  };
  std::vector<double> out;
  for (int64_t n = 0; n < kBatch; ++n) {
    for (int64_t q = 0; q < kLength; ++q) {
      for (int64_t head = 0; head < kHeads; ++head) {
        std::vector<double> weights;
        double most = -INFINITY, sum = 0;
        const int64_t keys = form.causal ? q + 1 : kLength;
        for (int64_t k = 0; k < keys; ++k) {
          double score = 0;
          for (int64_t i = 0; i < kWidth; ++i) score += at(n, q, 0, head, i) * at(n, k, 1, head, i);
          weights.push_back(score * scale + (bias.empty() ? 0 : bias[static_cast<size_t>(n * kLength + k)]));
          most = std::max(most, weights.back());
        }
        for (double& weight : weights) sum += weight = std::exp(weight - most);
        for (int64_t i = 0; i < kWidth; ++i) {
          double value = 0;
          for (int64_t k = 0; k < keys; ++k) value += weights[static_cast<size_t>(k)] / sum * at(n, k, 2, head, i);
          out.push_back(value);
        }
      }
    }
  }
  return out;
}

class OpGraphTest : public DeviceTest, public ::testing::WithParamInterface<Form> {};

TEST_P(OpGraphTest, AttentionMatchesReference) {
  const Form& form = GetParam();
  const bool has_bias = form.bias;
  const AttentionShape shape = PackedAttention(form);
  const OpGraph graph = AttentionGraph(shape);
  CUDAEP_ASSERT_OK(dnn::Check(graph));
  auto handle = CreateHandle();
  CUDAEP_ASSERT_OK(handle.status());
  CUDAEP_ASSERT_OK(BindStream(**handle, stream()));
  auto plan = MakePlan(**handle, graph, 16 << 20);
#if !defined(CUDAEP_SIMULATED_DEVICE)
  const bool may_lack = form.causal || form.kv_heads != kHeads;  // an older library does
  if (may_lack && plan.status().code() == StatusCode::kNotSupported) GTEST_SKIP() << plan.status().ToString();
#endif
  CUDAEP_ASSERT_OK(plan.status());
  std::printf("attention by %s\n", (*plan)->choice().c_str());

  const auto packed = TestValues(kBatch * kLength * (kHeads + 2 * form.kv_heads) * kWidth, 1);
  const auto bias = has_bias ? TestValues(kBatch * kLength, 2) : std::vector<double>();
  auto* const device_packed = static_cast<std::byte*>(Upload(DataType::kFloat16, packed));
  const int64_t elems = kBatch * kLength * kHeads * kWidth;
  void* const out = Allocate(static_cast<size_t>(elems) * 2);
  std::vector<void*> tensors{device_packed, device_packed + kHeads * kWidth * 2,
                             device_packed + (kHeads + form.kv_heads) * kWidth * 2};
  if (has_bias) tensors.push_back(Upload(DataType::kFloat16, bias));
  tensors.push_back(out);
  void* const workspace = Allocate((*plan)->workspace_bytes());
  const auto wanted = Attention(form, packed, bias, shape.scale);
  const auto check = [&](const GraphPlan& checked) {
    CUDAEP_ASSERT_OK(Enqueue(**handle, checked, tensors, workspace));
    const auto got = Download(DataType::kFloat16, out, elems);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 8e-3) << "element " << i;
  };
  check(**plan);
  // The same plan again: as the library saves it where it does, else by its name.
  const Result<std::string> saved = (*plan)->Save();
  auto pinned = MakePlan(**handle, graph, 16 << 20, saved.ok() ? saved.value() : (*plan)->choice());
  CUDAEP_ASSERT_OK(pinned.status());
  CUDAEP_ASSERT_OK(device::MemsetAsync(out, 0xFF, static_cast<size_t>(elems) * 2, stream()));
  check(**pinned);
  EXPECT_EQ(Enqueue(**handle, **plan, {tensors.data(), 2}, workspace).code(), StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Forms, OpGraphTest,
                         ::testing::Values(Form{"Plain"}, Form{.name = "Bias", .bias = true},
                                           Form{.name = "Causal", .causal = true},
                                           Form{.name = "Groups", .kv_heads = 2},
                                           Form{.name = "CausalGroups", .causal = true, .kv_heads = 1}),
                         [](const auto& info) { return std::string(info.param.name); });

#if defined(CUDAEP_SIMULATED_DEVICE)
// Only the softmax of attention has zeros where numbers have no difference or quotient.
TEST_F(DeviceTest, OtherGraphsKeepNan) {
  const Shape dims{1, 4, 1}, strides{4, 1, 1};
  for (const PointwiseMode mode : {PointwiseMode::kSub, PointwiseMode::kDiv}) {
    OpGraph graph;
    const TensorIndex a = graph.Tensor(DataType::kFloat, dims, strides),
                      b = graph.Tensor(DataType::kFloat, dims, strides);
    graph.Pointwise(mode, a, b, graph.Tensor(DataType::kFloat, dims, strides));
    auto handle = CreateHandle();
    CUDAEP_ASSERT_OK(handle.status());
    CUDAEP_ASSERT_OK(BindStream(**handle, stream()));
    auto plan = MakePlan(**handle, graph, 0);
    CUDAEP_ASSERT_OK(plan.status());
    void* const tensors[] = {Upload(DataType::kFloat, {-INFINITY, 0, 6, INFINITY}),
                             Upload(DataType::kFloat, {-INFINITY, 0, 2, INFINITY}), Allocate(16)};
    CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, tensors, nullptr));
    const auto got = Download(DataType::kFloat, tensors[2], 4);
    const bool divides = mode == PointwiseMode::kDiv;
    EXPECT_TRUE(std::isnan(got[0]) && std::isnan(got[3]));
    EXPECT_EQ(std::isnan(got[1]), divides);
    EXPECT_EQ(got[2], divides ? 3 : 4);
  }
}
#endif

TEST(OpGraph, TextTellsGraphsApart) {
  OpGraph plain = AttentionGraph(PackedAttention({.name = "", .bias = true}));
  GraphOp convolution{.kind = OpKind::kConvolution, .a = 0, .b = 1, .result = 2};
  convolution.window = {
      .pad_begin = Shape{1, 2}, .pad_end = Shape{3, 4}, .stride = Shape{1, 1}, .dilation = Shape{1, 1}};
  const size_t relu = plain.ops.size();
  plain.ops.push_back({.pointwise = PointwiseMode::kRelu, .a = 0, .result = 2});
  plain.ops.push_back(convolution);
  const auto scalar = std::find_if(plain.tensors.begin(), plain.tensors.end(),
                                   [](const GraphTensor& t) { return t.scalar.has_value(); });
  ASSERT_NE(scalar, plain.tensors.end());
  const auto scalar_at = static_cast<size_t>(scalar - plain.tensors.begin());
  using Change = std::function<void(OpGraph&)>;
  const std::vector<Change> changes{
      [](OpGraph& g) { g.allow_tf32 = !g.allow_tf32; },
      [](OpGraph& g) { g.deterministic = !g.deterministic; },
      [](OpGraph& g) { g.tensors.push_back(g.tensors.back()); },
      [](OpGraph& g) { g.tensors[0].type = DataType::kBFloat16; },
      [](OpGraph& g) { g.tensors[0].dims[0] += 1; },
      [](OpGraph& g) { g.tensors[0].strides[3] += 1; },
      [](OpGraph& g) { g.tensors[0].is_virtual = true; },
      [&](OpGraph& g) { g.tensors[scalar_at].scalar = std::nextafter(0.125f, 1.0f); },
      [&](OpGraph& g) { g.tensors[scalar_at].scalar.reset(); },
      [](OpGraph& g) { g.ops.pop_back(); },
      [](OpGraph& g) { std::swap(g.ops[0], g.ops[1]); },
      [](OpGraph& g) { g.ops[0].kind = OpKind::kPointwise; },
      [](OpGraph& g) { g.ops[1].pointwise = PointwiseMode::kMax; },
      [](OpGraph& g) { g.ops[0].reduction = ReductionMode::kMax; },
      [](OpGraph& g) { g.ops[0].compute = DataType::kFloat16; },
      [](OpGraph& g) { g.ops[0].a = 2; },
      [](OpGraph& g) { g.ops[0].b = 2; },
      [](OpGraph& g) { g.ops[0].c = 2; },
      [](OpGraph& g) { g.ops[0].axis = 1; },
      [](OpGraph& g) { g.ops[0].result += 1; },
      [=](OpGraph& g) { g.ops[relu].least = -1; },
      [=](OpGraph& g) { g.ops[relu].most = -1; },
      [=](OpGraph& g) { g.ops[relu].slope = -1; },
      [](OpGraph& g) { g.ops.back().kind = OpKind::kConvolutionData; },
      [](OpGraph& g) { g.ops.back().window.pad_begin[1] = 5; },
      [](OpGraph& g) { g.ops.back().window.pad_end[0] = 5; },
      [](OpGraph& g) { g.ops.back().window.stride[1] = 2; },
      [](OpGraph& g) { g.ops.back().window.dilation[0] = 2; },
  };
  std::map<std::string, size_t> seen{{GraphText(plain), changes.size()}};
  for (size_t i = 0; i < changes.size(); ++i) {
    OpGraph other = plain;
    changes[i](other);
    const auto [same, is_new] = seen.emplace(GraphText(other), i);
    EXPECT_TRUE(is_new) << "change " << i << " reads like change " << same->second;
  }
}

TEST(OpGraph, WhatDoesNotFitIsNamed) {
  OpGraph graph;
  const Shape a{1, 4, 8}, b{1, 7, 4}, ones{1, 1, 1};
  graph.Matmul(graph.Tensor(DataType::kFloat, a, Shape{32, 8, 1}), graph.Tensor(DataType::kFloat, b, Shape{28, 4, 1}));
  Status status = dnn::Check(graph);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("operation 0: dimensions do not fit"), std::string_view::npos) << status.ToString();
  OpGraph early;
  early.Pointwise(PointwiseMode::kRelu, early.Virtual(DataType::kFloat, ones));
  status = dnn::Check(early);
  EXPECT_NE(status.message().find("not made yet"), std::string_view::npos) << status.ToString();
}

}  // namespace
}  // namespace cudaep::dnn
