// Passes over graphs that are written here; whole models run with and without them in tests/session and tests/models.
#include "graph/pass/pass.h"

#include <gtest/gtest.h>

#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using ir::Dim;
using ir::Graph;
using ir::Node;

class Builder {
 public:
  int Value(const char* name, std::vector<Dim> dims) {
    return graph.AddValue({.name = name, .type = DataType::kFloat, .dims = std::move(dims)});
  }
  int Input(const char* name, std::vector<Dim> dims) {
    const int value = Value(name, std::move(dims));
    graph.value(value).input = static_cast<int>(graph.inputs.size());
    graph.inputs.push_back(value);
    return value;
  }
  int Constant(const char* name, Shape dims) {
    ops::HostTensor tensor{.type = DataType::kFloat, .dims = dims, .data = {}};
    tensor.data.resize(tensor.view().bytes());
    return graph.AddConstant(name, std::move(tensor));
  }
  int Add(const char* op, int version, std::vector<int> inputs, std::vector<Dim> dims,
          ops::Attributes attributes = {}) {
    const int output = Value(op, std::move(dims));
    graph.nodes.push_back({.name = op,
                           .op_type = op,
                           .since_version = version,
                           .attributes = std::move(attributes),
                           .inputs = std::move(inputs),
                           .outputs = {output},
                           .sources = {op}});
    return output;
  }
  void Output(int value) {
    graph.value(value).output = static_cast<int>(graph.outputs.size());
    graph.outputs.push_back(value);
  }
  std::vector<std::string> Ops() const {
    std::vector<std::string> ops;
    for (const Node& node : graph.nodes) ops.push_back(node.op_type);
    return ops;
  }

  Graph graph;
};

const std::vector<Dim> kImage = {{kUnknownDim, "batch"}, {8}, {16}, {16}};

struct ConvNet : Builder {
  ConvNet() {
    x = Input("x", kImage);
    z = Input("z", kImage);
    y = Add("Conv", 11, {x, Constant("w", {8, 8, 1, 1})}, kImage);
  }
  int x, y, z;
};

using Ops = std::vector<std::string>;

TEST(ConvEpilogueTest, SumAndActivationJoinTheConvolution) {
  ConvNet net;
  net.Output(net.Add("Relu", 14, {net.Add("Add", 14, {net.z, net.y}, kImage)}, kImage));
  const std::vector<FusionNote> notes = RunPasses(net.graph, {});
  ASSERT_EQ(net.Ops(), Ops{"Conv"});
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
  net.Output(net.Add("Add", 14, {net.Add("Relu", 14, {net.y}, kImage), net.z}, kImage));
  RunPasses(net.graph, {});
  EXPECT_EQ(net.Ops(), (Ops{"Conv", "Add"}));
}

TEST(ConvEpilogueTest, WhatOthersReadStays) {
  ConvNet net;
  net.Output(net.Add("Relu", 14, {net.y}, kImage));
  net.Output(net.Add("Sigmoid", 13, {net.y}, kImage));
  RunPasses(net.graph, {});
  EXPECT_EQ(net.Ops(), (Ops{"Conv", "Relu", "Sigmoid"}));
}

TEST(ConvEpilogueTest, WhatLeavesTheRegionStays) {
  ConvNet net;
  net.Output(net.y);
  net.Output(net.Add("Relu", 14, {net.y}, kImage));
  RunPasses(net.graph, {});
  EXPECT_EQ(net.Ops(), (Ops{"Conv", "Relu"}));
}

TEST(ConvEpilogueTest, SumOfOtherOrUnknownDimensionsStays) {
  for (const std::vector<Dim>& other :
       {std::vector<Dim>{{8}, {1}, {1}}, std::vector<Dim>{{1}, {8}, {16}, {16}},
        std::vector<Dim>{{kUnknownDim, "other"}, {8}, {16}, {16}}, std::vector<Dim>{{}, {8}, {16}, {16}}}) {
    ConvNet net;
    net.Output(net.Add("Relu", 14, {net.Add("Add", 14, {net.y, net.Input("b", other)}, kImage)}, kImage));
    const std::vector<FusionNote> notes = RunPasses(net.graph, {});
    EXPECT_EQ(net.Ops(), (Ops{"Conv", "Add", "Relu"}));
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_NE(notes[0].missed, "");
  }
}

TEST(ConvEpilogueTest, DoubledConvolutionStays) {
  ConvNet net;
  net.Output(net.Add("Add", 14, {net.y, net.y}, kImage));
  RunPasses(net.graph, {});
  EXPECT_EQ(net.Ops(), (Ops{"Conv", "Add"}));
}

TEST(ConvEpilogueTest, TheSumsOtherOperandMayBeMadeAfterTheConvolution) {
  ConvNet net;
  const int later = net.Add("Sigmoid", 13, {net.z}, kImage);
  net.Output(net.Add("Add", 14, {net.y, later}, kImage));
  RunPasses(net.graph, {});
  ASSERT_EQ(net.Ops(), (Ops{"Sigmoid", "Conv"}));
  EXPECT_EQ(net.graph.nodes[1].inputs[3], later);
}

TEST(PassTest, OptionsLeaveThemOut) {
  Settings none, skipped;
  none.fusion = false;
  skipped.fusion_skip.Add(Fusion::kConvEpilogue);
  for (const Settings& settings : {none, skipped}) {
    ConvNet net;
    net.Output(net.Add("Relu", 14, {net.y}, kImage));
    RunPasses(net.graph, settings);
    EXPECT_EQ(net.Ops(), (Ops{"Conv", "Relu"}));
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
