// Gated products with weights of few bits: one node, or what keeps them apart.
#include <gtest/gtest.h>

#include "nbits_net.h"

namespace cudaep::graph {
namespace {

// x and two products of it.
struct GatedNet : NBitsNet {
  explicit GatedNet(DataType of = DataType::kFloat16, const Weights& first = {}, const Weights& second = {})
      : NBitsNet(of), x(Input("x", {kBatch, kRows, {kInner}})) {
    gate = Product(x, first);
    up = Product(x, second);
  }

  int Silu(int value) { return Op("Mul", {value, Op("Sigmoid", {value})}); }
  int GeluByErf(int value) {
    const int erf = Op("Erf", {Op("Div", {value, Scalar(1.41421356f)})});
    return Op("Mul", {Op("Mul", {value, Op("Add", {erf, Scalar(1)})}), Scalar(0.5f)});
  }
  bool IsOne() const { return Operators() == Ops{"GatedMatMulNBits"}; }

  int x, gate, up;
};

std::string ActivationOf(const Net& net) { return std::get<std::string>(net.node(0).attributes.at("activation")); }

TEST(GatedNBitsTest, BothProductsAndTheirGateAreOne) {
  for (const DataType type : {DataType::kFloat16, DataType::kBFloat16, DataType::kFloat}) {
    for (const bool zeros : {false, true}) {
      GatedNet net(type, {.bits = 8, .zeros = zeros}, {.bits = 8, .zeros = zeros});
      const ir::Node first = net.node(0), second = net.node(1);
      net.Output(net.Op("Mul", {net.Silu(net.gate), net.up}));
      const auto notes = net.Run();
      ASSERT_TRUE(net.IsOne());
      const ir::Node& fused = net.node(0);
      EXPECT_EQ(fused.domain, ops::kFusedDomain);
      const std::vector<int>&a = first.inputs, &b = second.inputs;
      EXPECT_EQ(fused.inputs, (std::vector<int>{net.x, a[1], a[2], a[3], b[1], b[2], b[3]}));
      EXPECT_EQ(fused.outputs, net.graph.outputs);
      EXPECT_EQ(ActivationOf(net), "silu");
      for (const char* name : {"K", "N", "bits", "block_size"}) {
        EXPECT_EQ(std::get<int64_t>(fused.attributes.at(std::string(name))),
                  std::get<int64_t>(first.attributes.at(std::string(name))));
      }
      ASSERT_FALSE(notes.empty());
      EXPECT_EQ(Describe(notes.back()), "fusion gated_products: MatMulNBits + MatMulNBits + Sigmoid + Mul + Mul");
    }
  }
}

TEST(GatedNBitsTest, HoweverTheActivationIsSpelled) {
  const auto activation = [](auto&& spelled) {
    GatedNet net;
    net.Output(net.Op("Mul", {spelled(net, net.gate), net.up}));
    net.Run();
    return net.IsOne() ? ActivationOf(net) : "";
  };
  EXPECT_EQ(activation([](GatedNet& net, int x) { return net.Silu(x); }), "silu");
  EXPECT_EQ(activation([](GatedNet& net, int x) { return net.Op("Mul", {net.Op("Sigmoid", {x}), x}); }), "silu");
  EXPECT_EQ(activation([](GatedNet& net, int x) { return net.Open("Swish", 24, {x}, 3); }), "silu");
  EXPECT_EQ(activation([](GatedNet& net, int x) {
              return net.Microsoft("QuickGelu", {x}, {{"alpha", 1.0f}});
            }),
            "silu");
  EXPECT_EQ(activation([](GatedNet& net, int x) { return net.GeluByErf(x); }), "gelu");
  EXPECT_EQ(activation([](GatedNet& net, int x) { return net.Microsoft("Gelu", {x}); }), "gelu");
  EXPECT_EQ(activation([](GatedNet& net, int x) { return net.Microsoft("FastGelu", {x}); }), "gelu_tanh");
  EXPECT_EQ(activation([](GatedNet& net, int x) { return net.Op("Sigmoid", {x}); }), "sigmoid");
  EXPECT_EQ(activation([](GatedNet& net, int x) { return net.Microsoft("QuickGelu", {x}); }), "");
  EXPECT_EQ(activation([](GatedNet& net, int x) { return net.Open("Elu", 6, {x}, 3); }), "");
  EXPECT_EQ(activation([](GatedNet&, int x) { return x; }), "");  // no activation at all
}

TEST(GatedNBitsTest, WhicheverFactorIsActivatedIsTheFirst) {
  for (const bool swapped : {false, true}) {
    for (const bool later : {false, true}) {
      GatedNet net;
      const int first = later ? net.up : net.gate, second = later ? net.gate : net.up;
      const int weights = net.node(later ? 1 : 0).inputs[1];
      const int active = net.Silu(first);
      net.Output(net.Op("Mul", swapped ? std::vector{second, active} : std::vector{active, second}));
      net.Run();
      ASSERT_TRUE(net.IsOne());
      EXPECT_EQ(net.node(0).inputs[1], weights);
    }
  }
}

TEST(GatedNBitsTest, TheHostsSwiGluIsOneToo) {
  const auto fused = [](ops::Attributes attributes) {
    GatedNet net;
    net.Output(net.Microsoft("SwiGLU", {net.gate, net.up}, std::move(attributes)));
    net.Run();
    return net.IsOne() && ActivationOf(net) == "silu";
  };
  EXPECT_TRUE(fused({}));
  EXPECT_TRUE(fused({{"activation_alpha", 1.0f}, {"activation_beta", 0.0f}, {"limit", 0.0f}}));
  EXPECT_FALSE(fused({{"activation_alpha", 1.702f}}));
  EXPECT_FALSE(fused({{"activation_beta", 1.0f}}));
  EXPECT_FALSE(fused({{"limit", 7.0f}}));
  EXPECT_FALSE(fused({{"round_activation", int64_t{1}}}));
}

TEST(GatedNBitsTest, BitsAreFourWhereTheModelSaysNone) {
  GatedNet net(DataType::kFloat16, {.states_bits = false});
  net.Output(net.Op("Mul", {net.Silu(net.gate), net.up}));
  net.Run();
  ASSERT_TRUE(net.IsOne());
  EXPECT_EQ(std::get<int64_t>(net.node(0).attributes.at("bits")), 4);
}

// What the products are left apart for; "": nothing.
std::string MissedOf(GatedNet& net, int result) {
  net.Output(result);
  const std::string missed = Missed(net.Run());
  EXPECT_EQ(Count(net, "GatedMatMulNBits"), missed.empty() ? 1 : 0);
  EXPECT_EQ(Count(net, "MatMulNBits"), missed.empty() ? 0 : 2);
  return missed;
}

std::string MissedOf(const Weights& first, const Weights& second) {
  GatedNet net(DataType::kFloat16, first, second);
  return MissedOf(net, net.Op("Mul", {net.Silu(net.gate), net.up}));
}

TEST(GatedNBitsTest, WeightsOfTwoFormsStayApart) {
  const char* const kForms = "its products' weights have two forms";
  EXPECT_EQ(MissedOf({.bits = 4}, {.bits = 8}), kForms);
  EXPECT_EQ(MissedOf({.block = 16}, {.block = 32}), kForms);
  EXPECT_EQ(MissedOf({}, {.columns = 1}), kForms);  // which Mul would repeat
  EXPECT_EQ(MissedOf({.zeros = true}, {}), "only one of its products has zero points");
  EXPECT_EQ(MissedOf({}, {.zeros = true}), "only one of its products has zero points");
}

TEST(GatedNBitsTest, ProductsThatTheKernelDoesNotMakeStayApart) {
  const Weights floats{.zeros = true, .zeros_type = DataType::kFloat16};
  EXPECT_EQ(MissedOf(floats, floats), "its zero points are no integers");
  for (const bool second : {false, true}) {
    const auto missed = [&](const Weights& other) {
      return second ? MissedOf(Weights{}, other) : MissedOf(other, Weights{});
    };
    EXPECT_EQ(missed({.groups = true}), "a product of it has groups of weights");
    EXPECT_EQ(missed({.bias = true}), "a product of it has a bias");
    EXPECT_EQ(missed({.constant = false}), "its weights are no constants");
  }
}

TEST(GatedNBitsTest, ProductsOfTwoTensorsStayApart) {
  GatedNet net;
  net.graph.nodes[1].inputs[0] = net.Input("z", {kBatch, kRows, {kInner}});
  EXPECT_EQ(MissedOf(net, net.Op("Mul", {net.Silu(net.gate), net.up})), "its products are of two tensors");
}

TEST(GatedNBitsTest, AnActivationWithParametersStays) {
  GatedNet net;
  EXPECT_EQ(MissedOf(net, net.Op("Mul", {net.Open("LeakyRelu", 16, {net.gate}, 3), net.up})),
            "its activation has parameters");
}

TEST(GatedNBitsTest, WhatOthersReadStays) {
  for (int i = 0; i < 3; ++i) {
    GatedNet net;
    const int active = net.Open("Swish", 24, {net.gate}, 3);
    net.Output(i == 0 ? net.gate : i == 1 ? net.up : active);
    EXPECT_EQ(MissedOf(net, net.Op("Mul", {active, net.up})),
              i == 0 ? "others read what it is applied to" : "others read one of its factors");
  }
}

TEST(GatedNBitsTest, OneProductWithItselfStays) {
  GatedNet net;
  net.Output(net.Op("Mul", {net.Op("Sigmoid", {net.gate}), net.gate}));
  net.Output(net.up);
  EXPECT_EQ(Missed(net.Run()), "");
  EXPECT_EQ(Count(net, "MatMulNBits"), 2);
}

TEST(GatedNBitsTest, IsLeftOutByName) {
  GatedNet net;
  net.Output(net.Op("Mul", {net.Silu(net.gate), net.up}));
  net.Run(Without({Fusion::kGatedProducts}));
  EXPECT_EQ(Count(net, "MatMulNBits"), 2);
}

TEST(GatedNBitsTest, ComesBeforeChains) {
  GatedNet net;
  net.Output(net.Op("Mul", {net.Silu(net.gate), net.up}));
  net.Run(Settings());
  EXPECT_TRUE(net.IsOne());
}

}  // namespace
}  // namespace cudaep::graph
