#include "graph/placement.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace cudaep::graph {
namespace {

// Builds graphs from lines of names, the way a model reads.
class Builder {
 public:
  Builder& Constant(const std::string& name) {
    graph_.values[Value(name)].small_constant = true;
    return *this;
  }
  Builder& Output(const std::string& name) {
    graph_.values[Value(name)].graph_output = true;
    return *this;
  }
  // Inputs written "@name" are read in host memory by our kernel.
  Builder& Node(const std::vector<std::string>& inputs, const std::string& output, bool claimed = true) {
    PlacementNode node;
    node.claimed = claimed;
    for (const std::string& input : inputs) {
      const bool host = input.starts_with("@");
      node.inputs.push_back({static_cast<int>(Value(host ? input.substr(1) : input)), host});
    }
    const size_t value = Value(output);
    graph_.values[value].producer = static_cast<int>(graph_.nodes.size());
    node.outputs.push_back(static_cast<int>(value));
    graph_.nodes.push_back(node);
    return *this;
  }
  // No provider but the CPU's has a kernel.
  Builder& CpuNode(const std::vector<std::string>& inputs, const std::string& output) {
    Node(inputs, output, false);
    graph_.nodes.back().falls_to_cpu = true;
    return *this;
  }
  // What the host hands to a Loop's body in its own memory.
  Builder& OfTheHost(const std::string& name) {
    graph_.values[Value(name)].host_output = true;
    return *this;
  }
  // Control flow with nodes of ours inside.
  Builder& Graphs(const std::vector<std::string>& inputs, const std::string& output) {
    Node(inputs, output);
    graph_.nodes.back().runs_graphs = true;
    return *this;
  }
  // Works with other ranks.
  Builder& Collective(const std::vector<std::string>& inputs, const std::string& output) {
    Node(inputs, output);
    graph_.nodes.back().collective = true;
    return *this;
  }
  // Shape or Size: the output is written in host memory.
  Builder& ShapeOf(const std::string& input, const std::string& output) {
    Node({input}, output);
    graph_.values[Value(output)].host_output = true;
    return *this;
  }
  std::vector<bool> Find() const { return FindShapeNodes(graph_); }

 private:
  size_t Value(const std::string& name) {
    const auto [entry, fresh] = names_.try_emplace(name, graph_.values.size());
    if (fresh) graph_.values.emplace_back();
    return entry->second;
  }
  PlacementGraph graph_;
  std::map<std::string, size_t> names_;
};

using Flags = std::vector<bool>;

TEST(Placement, ALoneShapeNodeIsOurs) {
  EXPECT_EQ(Builder().Node({"x"}, "y").ShapeOf("y", "s").Output("s").Find(), (Flags{false, false}));
}

TEST(Placement, ShapeArithmeticThatEndsInAHostInputStaysOnTheCpu) {
  EXPECT_EQ(Builder()
                .Constant("zero")
                .Constant("minus_one")
                .ShapeOf("x", "s")
                .Node({"s", "zero"}, "batch")               // Gather
                .Node({"batch", "minus_one"}, "new_shape")  // Concat
                .Node({"x", "@new_shape"}, "y")             // Reshape
                .Output("y")
                .Find(),
            (Flags{false, true, true, false}));
}

TEST(Placement, AnythingThatEndsInADeviceInputGoesToTheDevice) {
  EXPECT_EQ(Builder()
                .Constant("c")
                .ShapeOf("x", "s")
                .Node({"s"}, "f")
                .Node({"f", "c"}, "g")
                .Node({"x", "g"}, "y")
                .Output("y")
                .Find(),
            (Flags{false, false, false, false}));
}

TEST(Placement, MixedUseStaysInHostMemory) {
  EXPECT_EQ(
      Builder().ShapeOf("x", "s").Node({"s"}, "t").Node({"x", "@t"}, "y").Node({"y", "t"}, "z").Output("z").Find(),
      (Flags{false, true, false, false}));
}

TEST(Placement, GraphInputsNeverSeed) {
  EXPECT_EQ(Builder().Constant("c").Node({"n", "c"}, "m").Node({"x", "@m"}, "y").Output("y").Find(),
            (Flags{false, false}));
}

TEST(Placement, ConstantsAloneNeverSeed) {
  EXPECT_EQ(Builder().Constant("a").Constant("b").Node({"a", "b"}, "c").Node({"x", "@c"}, "y").Output("y").Find(),
            (Flags{false, false}));
}

TEST(Placement, GraphOutputsMayBeHostValues) {
  EXPECT_EQ(
      Builder().Constant("c").Node({"x"}, "y").ShapeOf("y", "s").Node({"s", "c"}, "t").Output("t").Output("y").Find(),
      (Flags{false, false, true}));
}

TEST(Placement, AGraphOfNothingElseIsNotMoved) {
  EXPECT_EQ(Builder().Constant("c").ShapeOf("x", "s").Node({"s", "c"}, "t").Output("t").Find(), (Flags{false, false}));
}

TEST(Placement, ALoopsConditionStaysWhereTheHostReadsIt) {
  EXPECT_EQ(Builder()
                .Constant("last")
                .OfTheHost("i")
                .OfTheHost("c_in")
                .Node({"i", "last"}, "less")
                .Node({"less", "c_in"}, "c")
                .Node({"v", "b"}, "w")
                .Output("c")
                .Output("w")
                .Find(),
            (Flags{true, true, false}));
}

TEST(Placement, AnIterationThatTheDeviceWantsIsComputedThere) {
  EXPECT_EQ(Builder().OfTheHost("i").Node({"i"}, "f").Node({"v", "f"}, "w").Output("w").Find(), (Flags{false, false}));
}

TEST(Placement, ALoopWhoseBodyIsTheConditionAloneIsMoved) {
  EXPECT_EQ(Builder().OfTheHost("c_in").Node({"c_in"}, "c").Output("c").Find(), (Flags{true}));
}

TEST(Placement, ControlFlowIsNoShapeNode) {
  EXPECT_EQ(Builder().ShapeOf("x", "s").Node({"s"}, "c").Graphs({"@c"}, "y").Output("y").Find(),
            (Flags{false, true, false}));
  EXPECT_EQ(Builder().Constant("k").ShapeOf("x", "s").Graphs({"s", "k"}, "y").Node({"x", "y"}, "z").Output("z").Find(),
            (Flags{false, false, false}));
}

TEST(Placement, ACollectiveIsNoShapeNode) {
  EXPECT_EQ(Builder().ShapeOf("x", "s").Collective({"s"}, "c").Node({"@c"}, "y").Output("y").Find(),
            (Flags{false, false, false}));
}

TEST(Placement, NodesWithoutOurKernelAreIgnored) {
  EXPECT_EQ(
      Builder().ShapeOf("x", "s").Node({"s"}, "t", false).Node({"t"}, "u").Node({"x", "@u"}, "y").Output("y").Find(),
      (Flags{false, false, false, false}));
}

TEST(Placement, AChainIsNotSplitAroundANodeThatRunsOnTheCpu) {
  EXPECT_EQ(Builder().ShapeOf("x", "s").CpuNode({"s"}, "t").Node({"t"}, "u").Node({"x", "@u"}, "y").Output("y").Find(),
            (Flags{false, true, true, false}));
}

TEST(Placement, ANodeOnTheCpuWhoseResultTheDeviceWantsIsAComputeNode) {
  EXPECT_EQ(Builder().ShapeOf("x", "s").CpuNode({"s"}, "t").Node({"x", "t"}, "y").Output("y").Find(),
            (Flags{false, false, false}));
}

TEST(Placement, ANodeOnTheCpuThatReadsDataIsAComputeNode) {
  EXPECT_EQ(Builder().CpuNode({"x"}, "y").Node({"y"}, "z").Output("z").Find(), (Flags{false, false}));
}

TEST(Placement, WhatFeedsADroppedNodeStaysWhereShapesNeedIt) {
  // s -> a -> b, b wanted on the device: a goes up in one copy, and d is not waited for.
  EXPECT_EQ(Builder()
                .Constant("c")
                .ShapeOf("x", "s")
                .Node({"s", "c"}, "a")
                .Node({"a", "c"}, "b")
                .Node({"x", "b"}, "y")
                .Node({"a", "c"}, "d")
                .Node({"y", "@d"}, "z")
                .Output("z")
                .Find(),
            (Flags{false, true, false, false, true, false}));
}

TEST(Placement, TheShapeOfADroppedNodesResultIsAHostValueStill) {
  // k = positions, wanted by an embedding; s2 = its shape, for the sizes of an Expand.
  EXPECT_EQ(Builder()
                .Constant("c")
                .ShapeOf("x", "s")
                .Node({"s", "c"}, "k")
                .Node({"x", "k"}, "y")
                .ShapeOf("k", "s2")
                .Node({"s2", "c"}, "size")
                .Node({"y", "@size"}, "z")
                .Output("z")
                .Find(),
            (Flags{false, false, false, false, true, false}));
}

TEST(Placement, WhatOnlyAShapeReadsGoesWhereItsInputsAre) {
  // r = positions, wanted by an Expand whose size is the shape of their maximum.
  EXPECT_EQ(Builder()
                .Constant("c")
                .ShapeOf("x", "s")
                .Node({"@s", "c"}, "r")
                .Node({"r", "c"}, "m")
                .ShapeOf("m", "size")
                .Node({"r", "@size"}, "y")
                .Output("y")
                .Find(),
            (Flags{false, false, false, false, false}));
  EXPECT_EQ(Builder()
                .Constant("c")
                .ShapeOf("x", "s")
                .Node({"s", "c"}, "r")
                .Node({"r", "c"}, "m")
                .ShapeOf("m", "size")
                .Node({"x", "@r"}, "y")
                .Node({"y", "@size"}, "z")
                .Output("z")
                .Find(),
            (Flags{false, true, true, true, false, false}));
}

}  // namespace
}  // namespace cudaep::graph
