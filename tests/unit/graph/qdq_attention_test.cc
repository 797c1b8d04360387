// Attention between codes.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/registry.h"
#include "qdq_net.h"

namespace cudaep::graph {
namespace {

constexpr int64_t kWide = 16;  // elements of a head
const std::vector<int64_t> kSplit = {0, 2, 1, 3}, kOfKeys = {0, 2, 3, 1};
const Dim kOther = {kUnknownDim, "other"};

// What an exporter writes of softmax(q k^T / 4 + mask) v, with codes between all of it.
struct AttentionNet : QdqNet {
  int Transposed(int value, const std::vector<int64_t>& perm, const std::vector<Dim>& dims) {
    return Add("Transpose", 13, {value}, dims, {{"perm", perm}});
  }
  int Coded(const char* name, int64_t size = kWide, double scale = 0.25) {
    return CodedOf(name, {kBatch, kRows, {kHeads}, {size}}, scale);
  }
  int CodedOf(const char* name, const std::vector<Dim>& dims, double scale = 0.25) {
    return Through(Input(name, dims), scale, 5, DataType::kInt8);
  }
  int Mask(const std::vector<Dim>& dims) { return Input("mask", dims); }

  void Build() {
    const std::vector<Dim> lying = {of_k[0], kRows, of_k[1], {size}};
    const int q = Transposed(Coded("q", size), kSplit, turned()),
              k = Transposed(CodedOf("k", lying), kOfKeys, {of_k[0], of_k[1], {size}, kRows}),
              v = Transposed(CodedOf("v", lying), kSplit, {of_k[0], of_k[1], kRows, {size}});
    int scores = Through(Add("MatMul", 13, {q, k}, ScoreDims()), 2, 1);
    others.push_back(scores);
    if (scales) scores = Through(Scaled(scores), 0.5, -7, DataType::kInt8);
    if (mask >= 0) scores = Through(Add("Add", 14, {scores, mask}, ScoreDims()), 0.125, 90);
    const int shares = Through(Add("Softmax", 13, {scores}, ScoreDims(), {{"axis", int64_t{-1}}}), 1.0 / 255, 0);
    const int read = other_shares ? Dequantize(graph.nodes.back().inputs[0], 1.0 / 128, 0) : shares;
    const int y = Through(Add("MatMul", 13, {read, v}, turned()), 0.375, 11);
    const int back = Transposed(y, kSplit, {kBatch, kRows, {kHeads}, {size}});
    Output(Quantize(back, 0.375, 11));
  }
  int Scaled(int scores) {
    const int by = Scalar(number);
    return Add(scaling, 14, number_first ? std::vector{by, scores} : std::vector{scores, by}, ScoreDims());
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

  std::string AllMissed() const {
    std::string all;
    for (const FusionNote& note : notes) all += note.missed.empty() ? "" : "\n  " + note.missed;
    return all;
  }

  int64_t size = kWide;
  std::vector<Dim> of_k = {kBatch, {kHeads}};  // of keys and values: batch and heads
  bool scales = true, other_shares = false, number_first = false;
  const char* scaling = "Div";
  float number = 4;
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

TEST(QdqAttentionTest, ScoresAreDividedOrMultiplied) {
  for (const bool number_first : {false, true}) {
    AttentionNet net;
    net.scaling = "Mul", net.number = 0.25f, net.number_first = number_first;
    net.Build();
    const ir::Node* const fused = net.Fused();
    ASSERT_NE(fused, nullptr) << number_first;
    EXPECT_EQ(Step(*fused, "scaled"), (std::vector<float>{2.0f * 0.25f / 0.5f, -121, 134}));
  }
}

void ExpectLeft(AttentionNet& net, const char* why) {
  EXPECT_EQ(net.Fused(), nullptr) << why;
  EXPECT_TRUE(net.Missed(why)) << why << "; instead:" << net.AllMissed();
}

TEST(QdqAttentionTest, MasksThatAreLeftAlone) {
  AttentionNet by_query;
  by_query.mask = by_query.Mask({kBatch, {1}, kRows, kRows});
  by_query.Build();
  ExpectLeft(by_query, "by key");

  AttentionNet of_rank_2;
  of_rank_2.mask = of_rank_2.Mask({{1}, kRows});
  of_rank_2.Build();
  ExpectLeft(of_rank_2, "by key");

  AttentionNet batch;  // no part of the softmax either
  batch.mask = batch.Mask({kOther, {1}, {1}, kRows});
  batch.Build();
  ExpectLeft(batch, "not known to repeat");
}

TEST(QdqAttentionTest, HeadsThatAreLeftAlone) {
  for (const int64_t size : {int64_t{80}, int64_t{40}, int64_t{8}}) {
    AttentionNet sizes;
    sizes.size = size;
    sizes.Build();
    ExpectLeft(sizes, "at most 64");
  }
  const std::vector<Dim> others[] = {{kOther, {kHeads}}, {{1}, {kHeads}}, {kBatch, {1}}};
  for (const std::vector<Dim>& of_k : others) {
    AttentionNet repeated;
    repeated.of_k = of_k;
    repeated.Build();
    ExpectLeft(repeated, "heads are not known");
  }
}

TEST(QdqAttentionTest, ScoresThatAreLeftAlone) {
  AttentionNet read;  // they leave
  read.Build();
  read.Output(read.others[0]);
  ExpectLeft(read, "read by others");

  for (const char* const scaling : {"Div", "Mul"}) {
    AttentionNet negative;
    negative.scaling = scaling, negative.number = -4;
    negative.Build();
    ExpectLeft(negative, "no product of codes");
  }

  AttentionNet divisor;  // a number by the scores
  divisor.number_first = true;
  divisor.Build();
  ExpectLeft(divisor, "no product of codes");

  AttentionNet shares;
  shares.other_shares = true;
  shares.Build();
  ExpectLeft(shares, "another scale or zero point where they are read");
}

// Scores, or shares, with batch and heads the other way round, as the values have them. Rows are as many as the model
// says: sums of transposed shares are not known to fit otherwise.
TEST(QdqAttentionTest, TransposedScoresAreLeftAlone) {
  const std::vector<int64_t> swap = {1, 0, 2, 3};
  const Dim rows = {kWide}, heads = {kHeads}, elements = {kWide};
  for (const bool shares : {false, true}) {
    AttentionNet net;
    const auto split = [&](const char* name, const std::vector<int64_t>& perm, const std::vector<Dim>& dims) {
      return net.Transposed(net.CodedOf(name, {kBatch, rows, heads, elements}), perm, dims);
    };
    const int q = split("q", kSplit, {kBatch, heads, rows, elements}),
              k = split("k", kOfKeys, {kBatch, heads, elements, rows}),
              v = split("v", {2, 0, 1, 3}, {heads, kBatch, rows, elements});
    const auto swapped = [&](int value) { return net.Transposed(value, swap, {heads, kBatch, rows, rows}); };
    int value = net.Through(net.Add("MatMul", 13, {q, k}, {kBatch, heads, rows, rows}), 2, 1);
    if (!shares) value = net.Through(swapped(value), 2, 1);
    const std::vector<Dim> dims = *net.graph.value(value).dims;
    value = net.Through(net.Add("Softmax", 13, {value}, dims, {{"axis", int64_t{-1}}}), 1.0 / 255, 0);
    if (shares) value = net.Through(swapped(value), 1.0 / 255, 0);
    net.Output(net.Quantize(net.Add("MatMul", 13, {value, v}, {heads, kBatch, rows, elements}), 0.375, 11));
    ExpectLeft(net, "scores are transposed");
  }
}

TEST(QdqAttentionTest, ElementsThatAreApartAreLeftAlone) {
  AttentionNet keys;  // [batch, heads, elements, keys] as they lie
  const int q = keys.Transposed(keys.Coded("q"), kSplit, keys.turned());
  const int k = keys.CodedOf("k", {kBatch, {kHeads}, {kWide}, kRows});
  const int v = keys.Transposed(keys.Coded("v"), kSplit, keys.turned());
  const int scores = keys.Through(keys.Add("MatMul", 13, {q, k}, AttentionNet::ScoreDims()), 2, 1);
  const int soft = keys.Add("Softmax", 13, {scores}, AttentionNet::ScoreDims(), {{"axis", int64_t{-1}}});
  keys.Output(keys.Quantize(keys.Add("MatMul", 13, {keys.Through(soft, 1.0 / 255, 0), v}, keys.turned()), 2, 1));
  ExpectLeft(keys, "do not lie side by side");
}

}  // namespace
}  // namespace cudaep::graph
