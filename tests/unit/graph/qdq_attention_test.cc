// Attention between codes.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/registry.h"
#include "qdq_net.h"

namespace cudaep::graph {
namespace {

constexpr int64_t kWide = 16;  // elements of a head
const std::vector<int64_t> kSplit = {0, 2, 1, 3}, kOfKeys = {0, 2, 3, 1};

// What an exporter writes of softmax(q k^T / 4 + mask) v, with codes between all of it.
struct AttentionNet : QdqNet {
  int Transposed(int value, const std::vector<int64_t>& perm, const std::vector<Dim>& dims) {
    return Add("Transpose", 13, {value}, dims, {{"perm", perm}});
  }
  int Coded(const char* name, int64_t size = kWide, double scale = 0.25) {
    return Through(Input(name, {kBatch, kRows, {kHeads}, {size}}), scale, 5, DataType::kInt8);
  }
  int Mask(const std::vector<Dim>& dims) { return Input("mask", dims); }

  void Build() {
    const int q = Transposed(Coded("q", size), kSplit, turned()),
              k = Transposed(Coded("k", size), k_perm, {kBatch, {kHeads}, {size}, kRows}),
              v = Transposed(Coded("v", size), kSplit, turned());
    int scores = Through(Add("MatMul", 13, {q, k}, ScoreDims()), 2, 1);
    others.push_back(scores);
    if (scales) scores = Through(Add("Div", 14, {scores, Scalar(4)}, ScoreDims()), 0.5, -7, DataType::kInt8);
    if (mask >= 0) scores = Through(Add("Add", 14, {scores, mask}, ScoreDims()), 0.125, 90);
    const int shares = Through(Add("Softmax", 13, {scores}, ScoreDims(), {{"axis", int64_t{-1}}}), 1.0 / 255, 0);
    const int read = other_shares ? Dequantize(graph.nodes.back().inputs[0], 1.0 / 128, 0) : shares;
    const int y = Through(Add("MatMul", 13, {read, v}, turned()), 0.375, 11);
    const int back = Transposed(y, kSplit, {kBatch, kRows, {kHeads}, {size}});
    Output(Quantize(back, 0.375, 11));
  }
  std::vector<Dim> turned() const { return {kBatch, {kHeads}, kRows, {size}}; }
  static std::vector<Dim> ScoreDims() { return {kBatch, {kHeads}, kRows, kRows}; }

  const ir::Node* Fused() {
    notes = Run();
    for (const ir::Node& node : graph.nodes) {
      if (node.Is("QuantizedAttention", ops::kFusedDomain)) return &node;
    }
    return nullptr;
  }
  bool Missed(const char* why) const {
    return std::ranges::any_of(notes,
                               [&](const FusionNote& note) { return note.missed.find(why) != std::string::npos; });
  }

  int64_t size = kWide;
  std::vector<int64_t> k_perm = kOfKeys;
  bool scales = true, other_shares = false;
  int mask = -1;
  std::vector<int> others;
  std::vector<FusionNote> notes;
};

std::vector<float> Step(const ir::Node& node, const char* name) {
  return std::get<std::vector<float>>(node.attributes.at(std::string(name)));
}

TEST(QdqAttentionTest, ScoresMaskAndSharesStayInside) {
  AttentionNet net;
  net.mask = net.Mask({kBatch, {1}, {1}, kRows});
  net.Build();
  const ir::Node* const fused = net.Fused();
  ASSERT_NE(fused, nullptr);
  ASSERT_EQ(fused->inputs.size(), 4u);
  EXPECT_EQ(fused->inputs[3], net.mask);
  const auto perm = [&](const char* name) {
    return std::get<std::vector<int64_t>>(fused->attributes.at(std::string(name)));
  };
  for (const char* name : {"q_perm", "k_perm", "v_perm"}) EXPECT_EQ(perm(name), kSplit) << name;
  EXPECT_EQ(std::get<int64_t>(fused->attributes.at("q_zero")), 5);
  // Of 0.25 * 0.25 by the codes of the scores, whose zero point is 1 of uint8, or the same of int8; and so on.
  EXPECT_EQ(Step(*fused, "scores"), (std::vector<float>{0.0625f / 2, -1, 254}));
  EXPECT_EQ(Step(*fused, "scaled"), (std::vector<float>{2.0f / 4 / 0.5f, -121, 134}));
  EXPECT_EQ(Step(*fused, "masked"), (std::vector<float>{0.5f / 0.125f, -90, 165}));
  EXPECT_EQ(Step(*fused, "shares"), (std::vector<float>{1 / (1.0f / 255), 0, 255}));
  EXPECT_EQ(Step(*fused, "result"), (std::vector<float>{static_cast<float>(1.0f / 255 * 0.25 / 0.375), -11, 244}));
  EXPECT_FLOAT_EQ(std::get<float>(fused->attributes.at("exponent")), 0.125f * std::log2(std::exp(1.0f)));
  EXPECT_EQ(std::get<float>(fused->attributes.at("mask_factor")), 8);
  EXPECT_EQ(std::ranges::count(net.Operators(), "QuantizedMatMul"), 0);
  EXPECT_EQ(std::ranges::count(net.Operators(), "QuantizedSoftmax"), 0);
}

TEST(QdqAttentionTest, WithoutMaskOrScaling) {
  AttentionNet net;
  net.scales = false;
  net.Build();
  const ir::Node* const fused = net.Fused();
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(fused->inputs.size(), 3u);
  EXPECT_FALSE(fused->attributes.contains("scaled"));
  EXPECT_FALSE(fused->attributes.contains("masked"));
}

TEST(QdqAttentionTest, AMaskOfCodes) {
  AttentionNet net;
  net.mask = net.Dequantize(net.Quantize(net.Mask({kBatch, {1}, {1}, kRows}), 0.5, 255), 0.5, 255);
  net.Build();
  const ir::Node* const fused = net.Fused();
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(std::get<float>(fused->attributes.at("mask_factor")), 4);
  EXPECT_TRUE(net.graph.value(fused->inputs[3]).type == DataType::kUint8 ||
              net.graph.value(fused->inputs[3]).type == DataType::kInt8);
}

TEST(QdqAttentionTest, LeftAlone) {
  AttentionNet by_query;
  by_query.mask = by_query.Mask({kBatch, {1}, kRows, kRows});
  by_query.Build();
  EXPECT_EQ(by_query.Fused(), nullptr);
  EXPECT_TRUE(by_query.Missed("not by key"));

  AttentionNet large;
  large.size = 80;
  large.Build();
  EXPECT_EQ(large.Fused(), nullptr);
  EXPECT_TRUE(large.Missed("at most 64 elements"));

  AttentionNet read;  // the scores leave
  read.Build();
  read.Output(read.others[0]);
  EXPECT_EQ(read.Fused(), nullptr);

  AttentionNet shares;
  shares.other_shares = true;
  shares.Build();
  EXPECT_EQ(shares.Fused(), nullptr);
  EXPECT_TRUE(shares.Missed("another scale or zero point where they are read"));

  AttentionNet keys;  // [batch, heads, elements, keys] as they lie
  keys.k_perm = {0, 2, 1, 3};
  const int q = keys.Transposed(keys.Coded("q"), kSplit, keys.turned());
  const int k = keys.Through(keys.Input("k", {kBatch, {kHeads}, {kWide}, kRows}), 0.25, 5, DataType::kInt8);
  const int v = keys.Transposed(keys.Coded("v"), kSplit, keys.turned());
  const int scores = keys.Through(keys.Add("MatMul", 13, {q, k}, AttentionNet::ScoreDims()), 2, 1);
  const int soft = keys.Add("Softmax", 13, {scores}, AttentionNet::ScoreDims(), {{"axis", int64_t{-1}}});
  keys.Output(keys.Quantize(keys.Add("MatMul", 13, {keys.Through(soft, 1.0 / 255, 0), v}, keys.turned()), 2, 1));
  EXPECT_EQ(keys.Fused(), nullptr);
  EXPECT_TRUE(keys.Missed("do not lie side by side"));
}

}  // namespace
}  // namespace cudaep::graph
