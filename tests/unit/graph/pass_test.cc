// Passes over graphs that are written here; whole models run with and without them in tests/session and tests/models.
#include "graph/pass/pass.h"

#include <gtest/gtest.h>

#include "graph_builder.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using ir::Dim;
using ir::Node;

const std::vector<Dim> kImage = {{kUnknownDim, "batch"}, {8}, {16}, {16}};

struct ConvNet : Builder {
  ConvNet() {
    x = Input("x", kImage);
    z = Input("z", kImage);
    y = Add("Conv", 11, {x, Constant("w", {8, 8, 1, 1})}, kImage);
  }
  int x, y, z;
};

TEST(ConvEpilogueTest, SumAndActivationJoinTheConvolution) {
  ConvNet net;
  net.Output(net.Add("Relu", 14, {net.Add("Add", 14, {net.z, net.y}, kImage)}, kImage));
  const std::vector<FusionNote> notes = RunPasses(net.graph, WithoutChains());
  ASSERT_EQ(net.Operators(), Ops{"Conv"});
  const Node& fused = net.graph.nodes[0];
  EXPECT_EQ(fused.domain, ops::kFusedDomain);
  EXPECT_EQ(fused.inputs, (std::vector<int>{net.x, fused.inputs[1], -1, net.z}));
  EXPECT_EQ(fused.outputs, net.graph.outputs);
  EXPECT_EQ(std::get<std::string>(fused.attributes.at("activation")), "relu");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(Describe(notes[0]), "fusion conv_epilogue: Conv + Add + Relu");
}

TEST(ConvEpilogueTest, ActivationBeforeTheSumStaysBeforeIt) {
  ConvNet net;
  const int sum = net.Add("Add", 14, {net.Add("Sigmoid", 13, {net.y}, kImage), net.z}, kImage);
  net.Output(net.Add("Relu", 14, {sum}, kImage));
  RunPasses(net.graph, WithoutChains());
  ASSERT_EQ(net.Operators(), (Ops{"Conv", "Relu"}));
  const Node& fused = net.graph.nodes[0];
  EXPECT_EQ(fused.inputs[3], net.z);
  EXPECT_EQ(std::get<std::string>(fused.attributes.at("activation")), "sigmoid");
  EXPECT_EQ(std::get<int64_t>(fused.attributes.at("adds_last")), 1);
}

TEST(ConvEpilogueTest, ASumBehindReluStays) {
  ConvNet net;
  net.Output(net.Add("Add", 14, {net.Add("Relu", 14, {net.y}, kImage), net.z}, kImage));
  RunPasses(net.graph, WithoutChains());
  EXPECT_EQ(net.Operators(), (Ops{"Conv", "Add"}));
}

TEST(ConvEpilogueTest, OfTwoSumsTheFirstJoins) {
  ConvNet net;
  const int first = net.Add("Relu", 14, {net.Add("Add", 14, {net.y, net.z}, kImage)}, kImage);
  net.Output(net.Add("Add", 14, {first, net.x}, kImage));
  RunPasses(net.graph, WithoutChains());
  ASSERT_EQ(net.Operators(), (Ops{"Conv", "Add"}));
  EXPECT_EQ(net.graph.nodes[0].inputs[3], net.z);
  EXPECT_FALSE(net.graph.nodes[0].attributes.contains("adds_last"));
}

TEST(ConvEpilogueTest, ASumOfOtherDimensionsBehindTheActivationStays) {
  ConvNet net;
  net.Output(net.Add("Add", 14, {net.Add("Sigmoid", 13, {net.y}, kImage), net.Input("b", {{8}, {1}, {1}})}, kImage));
  RunPasses(net.graph, WithoutChains());
  EXPECT_EQ(net.Operators(), (Ops{"Conv", "Add"}));
}

TEST(ConvEpilogueTest, WhatOthersReadStays) {
  ConvNet net;
  net.Output(net.Add("Relu", 14, {net.y}, kImage));
  net.Output(net.Add("Sigmoid", 13, {net.y}, kImage));
  const auto notes = RunPasses(net.graph, WithoutChains());
  EXPECT_EQ(net.Operators(), (Ops{"Conv", "Relu", "Sigmoid"}));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].missed, "others read what it is applied to");
}

TEST(ConvEpilogueTest, BoundsThatARunBringsStay) {
  ConvNet net;
  net.Output(net.Add("Clip", 13, {net.y, net.Input("least", {})}, kImage));
  const auto notes = RunPasses(net.graph, WithoutChains());
  EXPECT_EQ(net.Operators(), (Ops{"Conv", "Clip"}));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].missed, "its bounds are not constants in order");
}

TEST(ConvEpilogueTest, WhatLeavesTheRegionStays) {
  ConvNet net;
  net.Output(net.y);
  net.Output(net.Add("Relu", 14, {net.y}, kImage));
  RunPasses(net.graph, WithoutChains());
  EXPECT_EQ(net.Operators(), (Ops{"Conv", "Relu"}));
}

TEST(ConvEpilogueTest, SumOfOtherOrUnknownDimensionsStays) {
  for (const std::vector<Dim>& other :
       {std::vector<Dim>{{8}, {1}, {1}}, std::vector<Dim>{{1}, {8}, {16}, {16}},
        std::vector<Dim>{{kUnknownDim, "other"}, {8}, {16}, {16}}, std::vector<Dim>{{}, {8}, {16}, {16}}}) {
    ConvNet net;
    net.Output(net.Add("Relu", 14, {net.Add("Add", 14, {net.y, net.Input("b", other)}, kImage)}, kImage));
    const std::vector<FusionNote> notes = RunPasses(net.graph, WithoutChains());
    EXPECT_EQ(net.Operators(), (Ops{"Conv", "Add", "Relu"}));
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_NE(notes[0].missed, "");
  }
}

using Ints = std::vector<int64_t>;

// The operators left of two convolutions of one image of open size, and their sum.
Ops SumOfConvolutions(const ops::Attributes& left, const ops::Attributes& right) {
  Builder net;
  const std::vector<Dim> open = {{kUnknownDim, "batch"}, {8}, {}, {}};
  const int x = net.Input("x", {{kUnknownDim, "batch"}, {8}, {kUnknownDim, "height"}, {kUnknownDim, "width"}});
  const int a = net.Add("Conv", 11, {x, net.Constant("a", {8, 8, 3, 3})}, open, left);
  const int b = net.Add("Conv", 11, {x, net.Constant("b", {8, 8, 1, 1})}, open, right);
  net.Output(net.Add("Add", 14, {a, b}, open));
  RunPasses(net.graph, WithoutChains());
  return net.Operators();
}

TEST(ConvEpilogueTest, SumsAreOfTheSameDimensionsWhereAsManyWindowsFit) {
  const Ops fused{"Conv", "Conv"}, apart{"Conv", "Conv", "Add"};
  const Ints pads{1, 1, 1, 1}, twos{2, 2};
  EXPECT_EQ(SumOfConvolutions({{"pads", pads}}, {}), fused);
  EXPECT_EQ(SumOfConvolutions({{"pads", pads}, {"strides", twos}}, {{"strides", twos}}), fused);
  EXPECT_EQ(SumOfConvolutions({{"auto_pad", std::string("SAME_UPPER")}, {"strides", twos}},
                              {{"auto_pad", std::string("SAME_LOWER")}, {"strides", twos}}),
            fused);
  EXPECT_EQ(SumOfConvolutions({}, {}), apart);
  EXPECT_EQ(SumOfConvolutions({{"pads", pads}, {"strides", twos}}, {}), apart);
  EXPECT_EQ(SumOfConvolutions({{"pads", Ints{1, 1, 0, 0}}, {"strides", twos}}, {{"strides", twos}}), apart);
  EXPECT_EQ(SumOfConvolutions({{"pads", pads}, {"dilations", twos}}, {}), apart);
}

TEST(ConvEpilogueTest, DoubledConvolutionStays) {
  ConvNet net;
  net.Output(net.Add("Add", 14, {net.y, net.y}, kImage));
  RunPasses(net.graph, WithoutChains());
  EXPECT_EQ(net.Operators(), (Ops{"Conv", "Add"}));
}

TEST(ConvEpilogueTest, TheSumsOtherOperandMayBeMadeAfterTheConvolution) {
  ConvNet net;
  const int later = net.Add("Sigmoid", 13, {net.z}, kImage);
  net.Output(net.Add("Add", 14, {net.y, later}, kImage));
  RunPasses(net.graph, WithoutChains());
  ASSERT_EQ(net.Operators(), (Ops{"Sigmoid", "Conv"}));
  EXPECT_EQ(net.graph.nodes[1].inputs[3], later);
}

TEST(ConvEpilogueTest, OfTwoConvolutionsOneHasTheSum) {
  ConvNet net;
  const int other = net.Add("Conv", 11, {net.z, net.Constant("v", {8, 8, 1, 1})}, kImage);
  net.Output(net.Add("Relu", 14, {net.Add("Add", 14, {net.y, other}, kImage)}, kImage));
  RunPasses(net.graph, WithoutChains());
  ASSERT_EQ(net.Operators(), (Ops{"Conv", "Conv"}));
  EXPECT_EQ(net.graph.nodes[0].domain, ops::kOnnxDomain);
  EXPECT_EQ(net.graph.nodes[1].inputs[3], other);
}

// What the convolution's activation became; "" where nothing joined it.
struct Joined {
  std::string activation;
  std::vector<float> parameters;
};
Joined JoinedTo(ConvNet& net) {
  RunPasses(net.graph, WithoutChains());
  const Node& node = net.graph.nodes.back();
  if (node.domain != ops::kFusedDomain) return {};
  const auto parameters = node.attributes.find("activation_params");
  return {
      std::get<std::string>(node.attributes.at("activation")),
      parameters == node.attributes.end() ? std::vector<float>() : std::get<std::vector<float>>(parameters->second)};
}

TEST(ConvEpilogueTest, ActivationsKeepTheirParameters) {
  struct Case {
    const char* op;
    int version;
    ops::Attributes attributes;
    const char* activation;
    std::vector<float> parameters;
  };
  for (const Case& c : {Case{"LeakyRelu", 16, {{"alpha", 0.5f}}, "leaky_relu", {0.5f}},
                        Case{"LeakyRelu", 16, {}, "leaky_relu", {0.01f}},
                        Case{"HardSigmoid", 6, {{"beta", 0.25f}}, "hard_sigmoid", {0.2f, 0.25f}},
                        Case{"HardSwish", 14, {}, "hard_swish", {}}, Case{"Swish", 24, {}, "silu", {}},
                        Case{"Swish", 24, {{"alpha", 2.0f}}, "", {}}, Case{"Gelu", 20, {}, "gelu", {}},
                        Case{"Gelu", 20, {{"approximate", std::string("tanh")}}, "gelu_tanh", {}},
                        Case{"Clip", 6, {{"min", 0.0f}, {"max", 6.0f}}, "clip", {0.0f, 6.0f}},
                        Case{"Clip", 6, {{"max", 6.0f}}, "", {}}, Case{"Elu", 6, {}, "", {}}}) {
    ConvNet net;
    net.Output(net.Add(c.op, c.version, {net.y}, kImage, c.attributes));
    const Joined joined = JoinedTo(net);
    EXPECT_EQ(joined.activation, c.activation) << c.op;
    EXPECT_EQ(joined.parameters, c.parameters) << c.op;
  }
}

TEST(ConvEpilogueTest, BoundsOfClipMustBeConstants) {
  const auto clipped = [](auto&& bounds) {
    ConvNet net;
    net.Output(net.Add("Clip", 13, bounds(net), kImage));
    return JoinedTo(net).activation;
  };
  const auto number = [](ConvNet& net, float value) { return net.Vector<float>("bound", DataType::kFloat, {value}); };
  using Inputs = std::vector<int>;
  EXPECT_EQ(clipped([&](ConvNet& net) { return Inputs{net.y, number(net, -1), number(net, 6)}; }), "clip");
  EXPECT_EQ(clipped([&](ConvNet& net) { return Inputs{net.y, number(net, 0)}; }), "relu");
  EXPECT_EQ(clipped([&](ConvNet& net) { return Inputs{net.y, number(net, 0), net.Input("most", {})}; }), "");
  EXPECT_EQ(clipped([&](ConvNet& net) { return Inputs{net.y, -1, number(net, 6)}; }), "");
  EXPECT_EQ(clipped([&](ConvNet& net) { return Inputs{net.y, number(net, 6), number(net, 0)}; }), "");
}

TEST(ConvEpilogueTest, ProductsWithAGateOfTheSameValue) {
  struct Case {
    const char* gate;
    ops::Attributes attributes;
    const char* activation;
  };
  for (const Case& c : {Case{"Sigmoid", {}, "silu"}, Case{"HardSigmoid", {{"alpha", 1.0f / 6}}, "hard_swish"},
                        Case{"HardSigmoid", {}, ""}, Case{"Tanh", {}, ""}}) {
    for (const bool swapped : {false, true}) {
      ConvNet net;
      const int gate = net.Add(c.gate, 13, {net.y}, kImage, c.attributes);
      net.Output(net.Add("Mul", 14, {swapped ? gate : net.y, swapped ? net.y : gate}, kImage));
      EXPECT_EQ(JoinedTo(net).activation, c.activation) << c.gate;
    }
  }
}

TEST(ConvEpilogueTest, GatesThatOthersReadOrOfOtherValuesStay) {
  ConvNet read;
  const int gate = read.Add("Sigmoid", 13, {read.y}, kImage);
  read.Output(gate);
  read.Output(read.Add("Mul", 14, {read.y, gate}, kImage));
  EXPECT_EQ(JoinedTo(read).activation, "");
  ConvNet other;
  other.Output(other.Add("Mul", 14, {other.y, other.Add("Sigmoid", 13, {other.z}, kImage)}, kImage));
  EXPECT_EQ(JoinedTo(other).activation, "");
}

TEST(PassTest, OptionsLeaveThemOut) {
  Settings none, skipped;
  none.fusion = false;
  skipped.fusion_skip.Add(Fusion::kConvEpilogue);
  for (const Settings& settings : {none, skipped}) {
    ConvNet net;
    net.Output(net.Add("Relu", 14, {net.y}, kImage));
    RunPasses(net.graph, settings);
    EXPECT_EQ(net.Operators(), (Ops{"Conv", "Relu"}));
  }
}

TEST(FusionSetTest, ReadsNames) {
  FusionSet set;
  EXPECT_TRUE(set.AddNames(""));
  EXPECT_TRUE(set.AddNames(kFusionNames));
  for (int i = 0; i < kFusionCount; ++i) EXPECT_TRUE(set.Contains(static_cast<Fusion>(i)));
  EXPECT_FALSE(set.AddNames("conv_epilogue,nothing"));
  EXPECT_FALSE(set.AddNames("conv"));
  EXPECT_FALSE(set.AddNames(","));
}

}  // namespace
}  // namespace cudaep::graph
