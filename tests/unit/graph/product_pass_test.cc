// Products with what follows them.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/registry.h"
#include "transformer_net.h"

namespace cudaep::graph {
namespace {

struct ProductNet : Net {
  ProductNet() {
    x = Hidden("x"), residual = Hidden("residual");
    w = Constant("w", {kHidden, kHidden}), bias = Constant("bias", {kHidden});
    y = Op("MatMul", {x, w});
  }
  std::string Activation(size_t index) const {
    const auto found = node(index).attributes.find("activation");
    return found == node(index).attributes.end() ? "" : std::get<std::string>(found->second);
  }
  int x, residual, w, bias, y;
};

TEST(ProductPassTest, BiasResidualAndActivation) {
  ProductNet net;
  const int sum = net.Op("Add", {net.residual, net.Op("Add", {net.bias, net.y})});
  net.Output(net.Op("Relu", {sum}));
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"MatMul"});
  EXPECT_EQ(net.node(0).domain, ops::kFusedDomain);
  EXPECT_EQ(net.node(0).inputs, (std::vector<int>{net.x, net.w, net.bias, net.residual}));
  EXPECT_EQ(net.node(0).outputs, net.graph.outputs);
  EXPECT_EQ(net.Activation(0), "relu");
  EXPECT_EQ(net.node(0).sources, (Ops{"MatMul", "Add", "Add", "Relu"}));
}

TEST(ProductPassTest, SpelledOutActivations) {
  ProductNet net;
  const int h = net.Op("Add", {net.y, net.bias});
  const int erf = net.Op("Erf", {net.Op("Div", {h, net.Scalar(1.41421356f)})});
  net.Output(net.Op("Mul", {net.Op("Mul", {h, net.Op("Add", {erf, net.Scalar(1)})}), net.Scalar(0.5f)}));
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"MatMul"});
  EXPECT_EQ(net.Activation(0), "gelu");

  ProductNet silu;
  silu.Output(silu.Op("Mul", {silu.y, silu.Op("Sigmoid", {silu.y})}));
  silu.Run();
  ASSERT_EQ(silu.Operators(), Ops{"MatMul"});
  EXPECT_EQ(silu.Activation(0), "silu");
}

// What the host's optimisers make.
TEST(ProductPassTest, ActivationsOfMicrosoftsDomain) {
  for (const auto& [op, has_bias, activation] : {std::tuple{"Gelu", false, "gelu"},
                                                 {"BiasGelu", true, "gelu"},
                                                 {"FastGelu", false, "gelu_tanh"},
                                                 {"FastGelu", true, "gelu_tanh"}}) {
    for (const bool is_biased : {false, true}) {
      ProductNet net;
      const int sum = is_biased ? net.Op("Add", {net.y, net.bias}) : net.y;
      const int other = net.Constant("other", {kHidden});
      std::vector<int> inputs = {sum};
      if (has_bias) inputs.push_back(other);
      const int out = net.Open(op, 1, inputs, 3);
      net.graph.nodes.back().domain = ops::kMicrosoftDomain;
      net.Output(out);
      net.Run(WithoutChains());
      if (is_biased && has_bias) {  // there is one place
        EXPECT_EQ(net.Operators(), (Ops{"MatMul", op}));
        continue;
      }
      ASSERT_EQ(net.Operators(), Ops{"MatMul"}) << op;
      EXPECT_EQ(net.Activation(0), activation);
      EXPECT_EQ(net.node(0).inputs, (std::vector<int>{net.x, net.w, is_biased ? net.bias : has_bias ? other : -1, -1}));
      EXPECT_EQ(net.node(0).outputs, net.graph.outputs);
    }
  }
  ProductNet turned;  // the product is the bias
  turned.Output(turned.Open("BiasGelu", 1, {turned.residual, turned.y}, 3));
  turned.graph.nodes.back().domain = ops::kMicrosoftDomain;
  turned.Run(WithoutChains());
  EXPECT_EQ(turned.Operators(), (Ops{"MatMul", "BiasGelu"}));
}

// No library has them: a chain that follows takes them for nothing.
TEST(ProductPassTest, ActivationsWithParametersStay) {
  ProductNet net;
  net.Output(net.Open("LeakyRelu", 16, {net.y}, 3, {{"alpha", 0.1f}}));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"MatMul", "LeakyRelu"}));
  ProductNet hard;
  hard.Output(hard.Open("HardSwish", 14, {hard.y}, 3));
  hard.Run();
  ASSERT_EQ(hard.Operators(), Ops{"MatMul"});
  EXPECT_EQ(hard.Activation(0), "hard_swish");
}

TEST(ProductPassTest, NothingJoinsAfterAnActivation) {
  ProductNet net;
  net.Output(net.Op("Add", {net.Op("Relu", {net.y}), net.bias}));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"MatMul", "Add"}));
}

TEST(ProductPassTest, WhatOthersReadStays) {
  ProductNet net;
  const int sum = net.Op("Add", {net.y, net.bias});
  net.Output(sum);
  net.Output(net.Op("Relu", {sum}));
  const auto notes = net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"MatMul", "Relu"}));
  EXPECT_TRUE(std::ranges::any_of(
      notes, [](const FusionNote& note) { return note.missed == "others read what it is applied to"; }));
  ProductNet leaves;
  leaves.Output(leaves.y);
  leaves.Output(leaves.Op("Add", {leaves.y, leaves.bias}));
  leaves.Run();
  EXPECT_EQ(leaves.Operators(), (Ops{"MatMul", "Add"}));
}

TEST(ProductPassTest, SumsOfOtherDimensionsStay) {
  for (const std::vector<Dim>& dims :
       {std::vector<Dim>{{1}}, std::vector<Dim>{kRows, {kHidden}}, std::vector<Dim>{kBatch, {1}, {kHidden}},
        std::vector<Dim>{{kUnknownDim, "other"}, kRows, {kHidden}}}) {
    ProductNet net;
    net.Output(net.Op("Add", {net.y, net.Input("other", dims)}));
    const auto notes = net.Run();
    EXPECT_EQ(net.Operators(), (Ops{"MatMul", "Add"}));
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_NE(notes[0].missed, "");
  }
  ProductNet doubled;
  doubled.Output(doubled.Op("Add", {doubled.y, doubled.y}));
  doubled.Run();
  EXPECT_EQ(doubled.Operators(), (Ops{"MatMul", "Add"}));
}

TEST(ProductPassTest, OfTwoProductsTheFirstHasTheirSum) {
  ProductNet net;
  const int other = net.Op("MatMul", {net.residual, net.Constant("w2", {kHidden, kHidden})});
  net.Output(net.Op("Relu", {net.Op("Add", {net.y, other})}));
  const auto notes = net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"MatMul", "MatMul"}));
  EXPECT_EQ(net.node(0).outputs, std::vector<int>{other});
  EXPECT_EQ(net.node(1).inputs, (std::vector<int>{net.x, net.w, -1, other}));
  EXPECT_EQ(notes.size(), 1u);
}

TEST(ProductPassTest, GemmKeepsItsForm) {
  for (const float beta : {1.0f, 2.0f}) {
    Net net;
    const std::vector<Dim> dims = {kBatch, {kHidden}};
    const int x = net.Input("x", dims), w = net.Constant("w", {kHidden, kHidden}), c = net.Constant("c", {kHidden});
    const int y = net.Add("Gemm", 13, {x, w, c}, dims, {{"transB", int64_t{1}}, {"alpha", 0.5f}, {"beta", beta}});
    net.Output(net.Add("Tanh", 13, {y}, dims));
    net.Run();
    if (beta != 1.0f) {
      EXPECT_EQ(net.Operators(), (Ops{"Gemm", "Tanh"}));
      continue;
    }
    ASSERT_EQ(net.Operators(), Ops{"MatMul"});
    EXPECT_EQ(net.node(0).inputs, (std::vector<int>{x, w, c, -1}));
    EXPECT_EQ(std::get<int64_t>(net.node(0).attributes.at("transB")), 1);
    EXPECT_EQ(net.FloatOf(0, "alpha"), 0.5f);
  }
}

TEST(ProductPassTest, ASumWithANormKeepsTheResidualInTheProduct) {
  ProductNet net;
  const int sum = net.Op("Add", {net.Op("Add", {net.y, net.bias}), net.residual});
  net.Output(net.Open("LayerNormalization", 17, {sum, net.Constant("s", {kHidden}), net.Constant("b", {kHidden})}, 3));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"MatMul", "LayerNormalization"}));
}

}  // namespace
}  // namespace cudaep::graph
