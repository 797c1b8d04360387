// What is said of dimensions before a region runs.
#include "graph/ir/dims.h"

#include <gtest/gtest.h>

#include "core/strings.h"
#include "graph_builder.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

struct DimsNet : Builder {
  // x: [batch, length, 12]
  DimsNet() { x = Input("x", {{kUnknownDim, "batch"}, {kUnknownDim, "length"}, {12}}); }

  // Dimensions of the node's outputs, of which only the rank is stated.
  std::vector<std::string> Of(const char* op, int version, std::vector<int> inputs, size_t outputs = 1,
                              ops::Attributes attributes = {}, size_t rank = 3, const char* domain = "") {
    Add(op, version, std::move(inputs), std::vector<ir::Dim>(rank), std::move(attributes));
    graph.nodes.back().domain = domain;
    std::vector<int>& made = graph.nodes.back().outputs;
    for (size_t i = 1; i < outputs; ++i) made.push_back(Value(op, std::vector<ir::Dim>(rank)));
    ir::StateDims(graph);
    std::vector<std::string> texts;
    for (const int output : graph.nodes.back().outputs) {
      std::string text;
      for (const ir::Dim& dim : *graph.value(output).dims) {
        const bool own = dim.symbol.starts_with('#');  // nothing is known of it
        text += StrCat(text.empty() ? "" : ",", dim.known() ? std::to_string(dim.size) : own ? "?" : dim.symbol);
      }
      texts.push_back(std::move(text));
    }
    return texts;
  }

  int x;
};

using Texts = std::vector<std::string>;

TEST(Dims, SplitCutsOneAxis) {
  DimsNet listed;
  EXPECT_EQ(listed.Of("Split", 13, {listed.x, listed.Ints("sizes", {4, 8})}, 2, {{"axis", int64_t{-1}}}),
            (Texts{"batch,length,4", "batch,length,8"}));
  DimsNet attribute;
  EXPECT_EQ(attribute.Of("Split", 11, {attribute.x}, 2, {{"axis", int64_t{2}}, {"split", std::vector<int64_t>{5, 7}}}),
            (Texts{"batch,length,5", "batch,length,7"}));
  DimsNet equal;
  EXPECT_EQ(equal.Of("Split", 18, {equal.x}, 5, {{"axis", int64_t{2}}, {"num_outputs", int64_t{5}}}),
            (Texts{"batch,length,3", "batch,length,3", "batch,length,3", "batch,length,3", "batch,length,0"}));
  DimsNet symbolic;
  EXPECT_EQ(symbolic.Of("Split", 18, {symbolic.x}, 2, {{"axis", int64_t{1}}, {"num_outputs", int64_t{2}}}),
            (Texts{"batch,?,12", "batch,?,12"}));
  DimsNet computed;
  const int sizes = computed.Input("sizes", {{2}});
  computed.graph.value(sizes).type = DataType::kInt64;
  EXPECT_EQ(computed.Of("Split", 13, {computed.x, sizes}, 2, {{"axis", int64_t{2}}}),
            (Texts{"batch,length,?", "batch,length,?"}));
}

TEST(Dims, ResizeKeepsWhatItDoesNotScale) {
  const auto resized = [](std::vector<float> scales, ops::Attributes attributes = {}) {
    DimsNet net;
    const int by = net.Vector("scales", DataType::kFloat, std::move(scales));
    return net.Of("Resize", 19, {net.x, -1, by}, 1, std::move(attributes));
  };
  EXPECT_EQ(resized({1, 1, 2}), Texts{"batch,length,24"});
  EXPECT_EQ(resized({1, 2, 0.5f}), Texts{"batch,2*length,?"});
  EXPECT_EQ(resized({1, 1}), Texts{"?,?,?"});
  EXPECT_EQ(resized({1, 1, 2}, {{"axes", std::vector<int64_t>{2, 1, 0}}}), Texts{"?,?,?"});
  EXPECT_EQ(resized({1, 1, 2}, {{"coordinate_transformation_mode", std::string("tf_crop_and_resize")}}),
            Texts{"?,?,?"});
}

TEST(Dims, TileMultiplies) {
  DimsNet net;
  EXPECT_EQ(net.Of("Tile", 13, {net.x, net.Ints("repeats", {1, 2, 3})}), Texts{"batch,2*length,36"});
}

TEST(Dims, PadsAddUp) {
  const auto padded = [](std::vector<int64_t> pads, std::vector<int64_t> axes = {}) {
    DimsNet net;
    std::vector<int> inputs = {net.x, net.Ints("pads", std::move(pads))};
    if (!axes.empty()) inputs.insert(inputs.end(), {-1, net.Ints("axes", std::move(axes))});
    return net.Of("Pad", 18, inputs);
  };
  EXPECT_EQ(padded({0, 0, 1, 0, 0, 2}), Texts{"batch,length,15"});
  EXPECT_EQ(padded({0, 0, -3, 0, 0, 1}), Texts{"batch,length,10"});
  EXPECT_EQ(padded({0, 1, 0, 0, 0, 0}), Texts{"batch,?,12"});
  EXPECT_EQ(padded({4, 1, 3, 0}, {-1, 0}), Texts{"?,length,19"});
  EXPECT_EQ(padded({0, 0}), Texts{"?,?,?"});
  DimsNet attribute;
  EXPECT_EQ(attribute.Of("Pad", 2, {attribute.x}, 1, {{"pads", std::vector<int64_t>{0, 0, 5, 0, 0, 0}}}),
            Texts{"batch,length,17"});
  DimsNet computed;
  const int pads = computed.Input("pads", {{6}});
  computed.graph.value(pads).type = DataType::kInt64;
  EXPECT_EQ(computed.Of("Pad", 13, {computed.x, pads}), Texts{"?,?,?"});
}

TEST(Dims, FlattenFoldsOnBothSides) {
  const auto flat = [](int64_t axis) {
    DimsNet net;
    return net.Of("Flatten", 13, {net.x}, 1, {{"axis", axis}}, 2);
  };
  EXPECT_EQ(flat(0), Texts{"1,12*batch*length"});
  EXPECT_EQ(flat(1), Texts{"batch,12*length"});
  EXPECT_EQ(flat(-1), Texts{"batch*length,12"});
  EXPECT_EQ(flat(3), Texts{"12*batch*length,1"});
}

TEST(Dims, SlicesOfKnownSizes) {
  const auto slice = [](int64_t start, int64_t end, int64_t axis, int64_t step = 1) {
    DimsNet net;
    return net.Of("Slice", 13,
                  {net.x, net.Ints("starts", {start}), net.Ints("ends", {end}), net.Ints("axes", {axis}),
                   net.Ints("steps", {step})});
  };
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(slice(2, 5, 2), Texts{"batch,length,3"});
  EXPECT_EQ(slice(-5, kEnd, -1), Texts{"batch,length,5"});
  EXPECT_EQ(slice(0, 40, 2), Texts{"batch,length,12"});
  EXPECT_EQ(slice(8, 4, 2), Texts{"batch,length,0"});
  EXPECT_EQ(slice(1, kEnd, 2, 2), Texts{"batch,length,6"});
  EXPECT_EQ(slice(-1, -kEnd, 2, -5), Texts{"batch,length,3"});
  EXPECT_EQ(slice(0, kEnd, 1, 2), Texts{"batch,?,12"});
  EXPECT_EQ(slice(0, kEnd, 1), Texts{"batch,length,12"});
  EXPECT_EQ(slice(0, 12, 1), Texts{"batch,?,12"});
  EXPECT_EQ(slice(1, kEnd, 1), Texts{"batch,?,12"});
}

// What the host's optimisers make says what it replaced did.
TEST(Dims, FusedOperatorsKeepWhatIsKnown) {
  const auto of = [](const char* op, size_t outputs, ops::Attributes attributes, std::vector<ir::Dim> second) {
    DimsNet net;
    const int other = net.Input("other", std::move(second));
    return net.Of(op, 1, {net.x, other}, outputs, std::move(attributes), 3, ops::kMicrosoftDomain);
  };
  const char *const like_x = "batch,length,12", *const unknown = "?,?,?";
  for (const char* op : {"BiasDropout", "BiasGelu", "BiasSoftmax", "DequantizeLinear", "FastGelu", "Gelu",
                         "QuantizeLinear", "QuickGelu", "RotaryEmbedding"}) {
    EXPECT_EQ(of(op, 2, {}, {{12}}), (Texts{like_x, unknown})) << op;
  }
  for (const char* op : {"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}) {
    EXPECT_EQ(of(op, 4, {}, {{12}}), (Texts{like_x, unknown, unknown, like_x})) << op;
  }
  EXPECT_EQ(of("BiasDropout", 4, {}, {{12}}).back(), unknown);
  const std::vector<ir::Dim> rows = {{kUnknownDim, "batch"}, {kUnknownDim, "keys"}, {12}};
  EXPECT_EQ(of("FusedMatMul", 1, {{"transB", int64_t{1}}}, rows), Texts{"batch,length,keys"});
  EXPECT_EQ(of("FusedMatMul", 1, {{"transA", int64_t{1}}}, {{kUnknownDim, "length"}, {7}}), Texts{"batch,12,7"});
  EXPECT_EQ(of("FusedMatMul", 1, {{"transBatchA", int64_t{1}}}, rows), Texts{unknown});
}

// ONNX's own inference says that a Slice backwards without an end takes nothing.
TEST(Dims, WhatFollowsIsBetterThanWhatIsStated) {
  DimsNet net;
  const auto ints = [&](const char* name, int64_t number) { return net.Ints(name, {number}); };
  const int y = net.Add("Slice", 13,
                        {net.x, ints("starts", -1), ints("ends", std::numeric_limits<int64_t>::max()), ints("axes", 2),
                         ints("steps", -1)},
                        {{kUnknownDim, "batch"}, {kUnknownDim, "length"}, {0}});
  const int z = net.Add("Neg", 13, {y}, {{kUnknownDim, "batch"}, {kUnknownDim, "length"}, {0}});
  ir::StateDims(net.graph);
  for (const int value : {y, z}) EXPECT_EQ((*net.graph.value(value).dims)[2].size, 12);
}

}  // namespace
}  // namespace cudaep::graph
