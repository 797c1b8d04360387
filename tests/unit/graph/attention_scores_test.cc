// What models do to scores before softmax, and heads that lie in one dimension with the batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "graph/ir/constants.h"
#include "transformer_net.h"

namespace cudaep::graph {
namespace {

constexpr float kLowest = -3e38f;

struct ScoresNet : Net {
  using Net::Net;
  const std::vector<Dim> heads_first = {kBatch, {kHeads}, kRows, {kSize}};
  const std::vector<Dim> scores_dims = {kBatch, {kHeads}, kRows, kRows};
  const std::vector<Dim> flat_dims = {{kUnknownDim, "2*batch"}, kRows, {kSize}};
  int product = -1;

  int Bool(const char* name, std::vector<Dim> dims) {
    const int value = Input(name, std::move(dims));
    graph.value(value).type = DataType::kBool;
    return value;
  }
  int Wide(const char* op, std::vector<int> inputs) { return Add(op, 13, std::move(inputs), scores_dims); }
  int Product() {
    const int q = Input("q", heads_first), keys = Input("keys", {kBatch, {kHeads}, {kSize}, kRows});
    product = Wide("MatMul", {q, keys});
    return product;
  }
  void Finish(int scores) {
    const int weights = Add("Softmax", 13, {scores}, scores_dims, {{"axis", int64_t{-1}}});
    Output(Add("MatMul", 13, {weights, Input("v", heads_first)}, heads_first));
  }
  // The only node of the operator.
  const ir::Node* Find(std::string_view op) const {
    const auto found = std::ranges::find_if(graph.nodes, [&](const ir::Node& node) { return node.Is(op); });
    return found == graph.nodes.end() ? nullptr : &*found;
  }
};

using Build = std::function<int(ScoresNet&, int)>;

std::unique_ptr<ScoresNet> After(const Build& build) {
  auto net = std::make_unique<ScoresNet>();
  net->Finish(build(*net, net->Product()));
  net->Run();
  return net;
}

TEST(AttentionScoresTest, KeysThatNobodyTransposesAre) {
  const auto net = After([](ScoresNet&, int scores) { return scores; });
  ASSERT_EQ(net->Operators(), (Ops{"Transpose", "Attention"}));
  EXPECT_EQ(std::get<std::vector<int64_t>>(net->node(0).attributes.at("perm")), (std::vector<int64_t>{0, 1, 3, 2}));
}

TEST(AttentionScoresTest, ACapIsPartOfIt) {
  const auto net = After([](ScoresNet& n, int scores) {
    const int inner = n.Wide("Mul", {scores, n.Scalar(0.25f)});
    return n.Wide("Mul", {n.Wide("Tanh", {n.Wide("Div", {inner, n.Scalar(50)})}), n.Scalar(50)});
  });
  const ir::Node* const attention = net->Find("Attention");
  ASSERT_NE(attention, nullptr);
  EXPECT_FLOAT_EQ(std::get<float>(attention->attributes.at("softcap")), 50);
  EXPECT_FLOAT_EQ(std::get<float>(attention->attributes.at("scale")), 0.25f);
}

TEST(AttentionScoresTest, CapsThatOthersReadOrBelowZeroStay) {
  for (const bool shared : {true, false}) {
    const auto net = After([&](ScoresNet& n, int scores) {
      const int tanh = n.Wide("Tanh", {scores});
      if (shared) n.Output(tanh);
      return n.Wide("Mul", {tanh, n.Scalar(shared ? 50.f : -50.f)});
    });
    EXPECT_EQ(net->Find("Attention"), nullptr) << shared;
  }
}

TEST(AttentionScoresTest, WhatHidesKeysBecomesAMask) {
  for (const bool shown : {true, false}) {
    const auto net = After([&](ScoresNet& n, int scores) {
      const int condition = n.Bool("condition", {kBatch, {1}, {1}, kRows}), lowest = n.Scalar(kLowest);
      return n.Wide("Where", shown ? std::vector{condition, scores, lowest} : std::vector{condition, lowest, scores});
    });
    const ir::Node *const mask = net->Find("Where"), *const attention = net->Find("Attention");
    ASSERT_NE(mask, nullptr);
    ASSERT_NE(attention, nullptr);
    EXPECT_EQ(attention->inputs[3], mask->outputs[0]);
    EXPECT_EQ(*ir::ScalarOf(net->graph, mask->inputs[shown ? 1 : 2]), 0);
    EXPECT_FLOAT_EQ(static_cast<float>(*ir::ScalarOf(net->graph, mask->inputs[shown ? 2 : 1])), kLowest);
    EXPECT_EQ(net->graph.value(mask->outputs[0]).dims->size(), 4u);
  }
}

// A number that scores still matter beside, and hidden scores that others read.
TEST(AttentionScoresTest, WhatHidesNothingForSureStays) {
  const auto hide = [](ScoresNet& n, int scores, float number) {
    return n.Wide("Where", {n.Bool("condition", {kBatch, {1}, {1}, kRows}), n.Scalar(number), scores});
  };
  EXPECT_EQ(After([&](ScoresNet& n, int scores) { return hide(n, scores, -1e4f); })->Find("Attention"), nullptr);
  EXPECT_EQ(After([&](ScoresNet& n, int scores) {
              const int hidden = hide(n, scores, kLowest);
              n.Output(hidden);
              return hidden;
            })->Find("Attention"),
            nullptr);
}

TEST(AttentionScoresTest, SeveralAreOneMask) {
  const auto net = After([](ScoresNet& n, int scores) {
    const int bias = n.Input("bias", {{1}, {kHeads}, kRows, kRows}), mask = n.Input("mask", {kBatch, {1}, {1}, kRows});
    return n.Wide("Max", {n.Wide("Add", {n.Wide("Add", {bias, scores}), mask}), n.Scalar(kLowest)});
  });
  const ir::Node *const sum = net->Find("Add"), *const attention = net->Find("Attention");
  ASSERT_NE(sum, nullptr);
  ASSERT_NE(attention, nullptr);
  const ir::Node* const raised = net->Find("Max");
  ASSERT_NE(raised, nullptr);
  EXPECT_EQ(raised->inputs[0], sum->outputs[0]);
  EXPECT_EQ(attention->inputs[3], raised->outputs[0]);
  const auto& dims = *net->graph.value(attention->inputs[3]).dims;
  ASSERT_EQ(dims.size(), 4u);
  EXPECT_TRUE(dims[0].Equals(kBatch) && dims[1].size == kHeads && dims[2].Equals(kRows) && dims[3].Equals(kRows));
}

TEST(AttentionScoresTest, SeveralThatMightWidenTheScoresStay) {
  const auto net = After([](ScoresNet& n, int scores) {
    const int bias = n.Input("bias", {{1}, {kHeads}, kRows, kRows});
    const int mask = n.Input("mask", {{kUnknownDim, "other"}, {1}, {1}, kRows});
    return n.Open("Add", 13, {n.Wide("Add", {bias, scores}), mask}, 4);
  });
  EXPECT_EQ(net->Find("Attention"), nullptr);
}

// Products of [batch * heads, rows, size].
struct FlatNet : ScoresNet {
  int Flat(const char* name) {
    return Add("Reshape", 13, {Input(name, heads_first), Input("target", {{3}})}, flat_dims);
  }
  int Scores(int q, int k) {
    const int keys =
        Add("Transpose", 13, {k}, {flat_dims[0], {kSize}, kRows}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
    return Add("MatMul", 13, {q, keys}, {flat_dims[0], kRows, kRows});
  }
  int Mix(int scores, int v) {
    const int weights = Add("Softmax", 13, {scores}, {flat_dims[0], kRows, kRows}, {{"axis", int64_t{-1}}});
    return Add("MatMul", 13, {weights, v}, flat_dims);
  }
  int Apart(int flat) { return Add("Reshape", 13, {flat, Input("target", {{4}})}, heads_first); }
};

TEST(AttentionScoresTest, HeadsInTheBatchComeApart) {
  FlatNet net;
  const int q = net.Flat("q"), k = net.Flat("k"), v = net.Flat("v");
  net.Output(net.Apart(net.Mix(net.Scores(q, k), v)));
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"Attention"});
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(net.graph.value(net.node(0).inputs[i]).dims->size(), 4u);
}

TEST(AttentionScoresTest, HeadsThatStayInTheBatchAreOneEach) {
  FlatNet net;
  const int q = net.Input("q", net.flat_dims), k = net.Flat("k"), v = net.Flat("v");
  const int bias = net.Input("bias", {net.flat_dims[0], kRows, kRows});
  net.Output(net.Mix(net.Add("Add", 13, {net.Scores(q, k), bias}, {net.flat_dims[0], kRows, kRows}), v));
  net.Run();
  const Ops ops = net.Operators();
  EXPECT_EQ(std::ranges::count(ops, "Attention"), 1);
  EXPECT_EQ(std::ranges::count(ops, "Unsqueeze"), 4);
  EXPECT_EQ(ops.back(), "Squeeze");
  for (const int input : net.Find("Attention")->inputs) EXPECT_EQ(net.graph.value(input).dims->at(1).size, 1);
}

// A bias of heads that lie in the batch, which is no view of one of heads apart.
TEST(AttentionScoresTest, ABiasOfHeadsInTheBatchKeepsThemThere) {
  for (const bool splits : {true, false}) {
    FlatNet net;
    const int q = net.Flat("q"), k = net.Flat("k"), v = net.Flat("v");
    const std::vector<Dim> dims = {net.flat_dims[0], kRows, kRows};
    int bias = net.Input("bias", splits ? net.scores_dims : dims);
    if (splits) bias = net.Add("Reshape", 13, {bias, net.Input("target", {{3}})}, dims);
    net.Output(net.Apart(net.Mix(net.Add("Add", 13, {net.Scores(q, k), bias}, dims), v)));
    net.Run();
    EXPECT_EQ(net.Find("Attention") != nullptr, splits);
  }
}

}  // namespace
}  // namespace cudaep::graph
