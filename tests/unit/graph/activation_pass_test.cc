// Activations that are spelled out.
#include <gtest/gtest.h>

#include "ops/registry.h"
#include "transformer_net.h"

namespace cudaep::graph {
namespace {

struct GeluNet : Net {
  GeluNet() { x = Hidden("x"); }
  int Erf(float root, bool divides) { return Op("Erf", {Op(divides ? "Div" : "Mul", {x, Scalar(root)})}); }
  int x;
};

TEST(ActivationPassTest, GeluByErfInEveryOrder) {
  for (const bool divides : {false, true}) {
    for (int order = 0; order < 4; ++order) {
      GeluNet net;
      const int erf = net.Erf(divides ? 1.41421356f : 0.70710678f, divides);
      const int sum = order % 2 == 0 ? net.Op("Add", {erf, net.Scalar(1)}) : net.Op("Add", {net.Scalar(1), erf});
      int y = -1;
      if (order == 0) y = net.Op("Mul", {net.Op("Mul", {net.x, sum}), net.Scalar(0.5f)});
      if (order == 1) y = net.Op("Mul", {net.x, net.Op("Mul", {net.Scalar(0.5f), sum})});
      if (order == 2) y = net.Op("Mul", {net.Op("Mul", {net.x, net.Scalar(0.5f)}), sum});
      if (order == 3) y = net.Op("Div", {net.Op("Mul", {sum, net.x}), net.Scalar(2)});
      net.Output(y);
      const std::vector<FusionNote> notes = net.Run();
      ASSERT_EQ(net.Operators(), Ops{"Gelu"}) << order;
      EXPECT_EQ(net.node(0).inputs, std::vector<int>{net.x});
      EXPECT_EQ(net.node(0).outputs, net.graph.outputs);
      EXPECT_EQ(std::get<std::string>(net.node(0).attributes.at("approximate")), "none");
      EXPECT_EQ(net.node(0).sources.size(), 5u);
      ASSERT_EQ(notes.size(), 1u);
      EXPECT_EQ(notes[0].missed, "");
    }
  }
}

TEST(ActivationPassTest, WhatIsNearlyGeluStays) {
  struct Case {
    float root = 1.41421356f, one = 1, half = 0.5f;
    bool other_x = false, sum_leaves = false;
  };
  for (const Case& c : {Case{.root = 1.42f}, Case{.one = 2}, Case{.half = 0.6f}, Case{.other_x = true}}) {
    GeluNet net;
    const int sum = net.Op("Add", {net.Erf(c.root, true), net.Scalar(c.one)});
    const int x = c.other_x ? net.Hidden("other") : net.x;
    net.Output(net.Op("Mul", {net.Op("Mul", {x, sum}), net.Scalar(c.half)}));
    net.Run();
    EXPECT_EQ(net.Operators().size(), 5u);
  }
}

TEST(ActivationPassTest, WhatOthersReadStaysBesideIt) {
  GeluNet net;
  const int sum = net.Op("Add", {net.Erf(1.41421356f, true), net.Scalar(1)});
  net.Output(sum);
  net.Output(net.Op("Mul", {net.Op("Mul", {net.x, sum}), net.Scalar(0.5f)}));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"Div", "Erf", "Add", "Gelu"}));
}

TEST(ActivationPassTest, OperandsOfOtherDimensionsStay) {
  GeluNet net;
  const int sum = net.Op("Add", {net.Erf(1.41421356f, true), net.Scalar(1)});
  ops::HostTensor half{.type = DataType::kFloat, .dims = {1, 1, 1, 1}, .data = std::vector<std::byte>(4)};
  const float value = 0.5f;
  std::memcpy(half.data.data(), &value, sizeof value);
  const int wide = net.graph.AddConstant("half", std::move(half));
  net.Output(net.Open("Mul", 14, {net.Op("Mul", {net.x, sum}), wide}, 4));
  const auto notes = net.Run();
  EXPECT_EQ(net.Operators().size(), 5u);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].missed, "");
}

TEST(ActivationPassTest, GeluByTanhInBothForms) {
  for (const bool nested : {false, true}) {
    for (const bool power : {false, true}) {
      GeluNet net;
      const int square = net.Op("Mul", {net.x, net.x});
      const int cube = power ? net.Op("Pow", {net.x, net.Scalar(3)}) : net.Op("Mul", {square, net.x});
      const int plain = net.Op("Add", {net.x, net.Op("Mul", {cube, net.Scalar(0.044715f)})});
      const int inner = net.Op("Add", {net.Op("Mul", {net.Scalar(0.044715f), square}), net.Scalar(1)});
      const int factored = net.Op("Mul", {net.x, inner});
      const int tanh = net.Op("Tanh", {net.Op("Mul", {nested ? factored : plain, net.Scalar(0.79788456f)})});
      net.Output(net.Op("Mul", {net.Op("Mul", {net.x, net.Scalar(0.5f)}), net.Op("Add", {tanh, net.Scalar(1)})}));
      RemoveDeadNodes(net.graph);
      net.Run();
      ASSERT_EQ(net.Operators(), Ops{"Gelu"}) << nested << power;
      EXPECT_EQ(std::get<std::string>(net.node(0).attributes.at("approximate")), "tanh");
    }
  }
}

TEST(ActivationPassTest, OtherPolynomialsUnderTanhStay) {
  GeluNet net;
  const int cube = net.Op("Pow", {net.x, net.Scalar(3)});
  const int sum = net.Op("Add", {net.x, net.Op("Mul", {cube, net.Scalar(0.05f)})});
  const int tanh = net.Op("Tanh", {net.Op("Mul", {sum, net.Scalar(0.79788456f)})});
  net.Output(net.Op("Mul", {net.Op("Mul", {net.x, net.Scalar(0.5f)}), net.Op("Add", {tanh, net.Scalar(1)})}));
  net.Run();
  EXPECT_EQ(net.Operators().size(), 8u);
}

TEST(ActivationPassTest, SigmoidGates) {
  for (const float alpha : {1.0f, 1.702f}) {
    GeluNet net;
    const int inner = alpha == 1.0f ? net.x : net.Op("Mul", {net.x, net.Scalar(alpha)});
    net.Output(net.Op("Mul", {net.x, net.Op("Sigmoid", {inner})}));
    net.Run();
    ASSERT_EQ(net.Operators(), Ops{"QuickGelu"});
    EXPECT_EQ(net.node(0).domain, ops::kMicrosoftDomain);
    EXPECT_EQ(net.FloatOf(0, "alpha"), alpha);
  }
  GeluNet other;
  other.Output(other.Op("Mul", {other.x, other.Op("Sigmoid", {other.Hidden("gate")})}));
  other.Run();
  EXPECT_EQ(other.Operators(), (Ops{"Sigmoid", "Mul"}));
}

}  // namespace
}  // namespace cudaep::graph
