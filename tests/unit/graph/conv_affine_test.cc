// What a convolution takes over into its weights, and what it leaves.
#include <gtest/gtest.h>

#include "graph/ir/constants.h"
#include "graph/pass/pass.h"
#include "graph_builder.h"

namespace cudaep::graph {
namespace {

using ir::Dim;
using Numbers = std::vector<double>;

const std::vector<Dim> kImage = {{kUnknownDim, "n"}, {2}, {4}, {4}};

struct ConvNet : Builder {
  explicit ConvNet(DataType element = DataType::kFloat16, Numbers weights = {1, 2, -3, 4}) : Builder(element) {
    x = Input("x", kImage);
    y = Add("Conv", 11, {x, Numbered("w", {2, 2, 1, 1}, weights), Numbered("b", {2}, {10, 20})}, kImage);
  }
  int Numbered(const char* name, Shape dims, const Numbers& numbers) {
    return graph.AddConstant(name, ir::MakeNumbers(type, dims, numbers));
  }
  int Norm(int value, const Numbers& scale) {
    return Add("BatchNormalization", 15,
               {value, Numbered("scale", {2}, scale), Numbered("shift", {2}, {1, 2}), Numbered("mean", {2}, {4, -8}),
                Numbered("variance", {2}, {4, 16})},
               kImage, {{"epsilon", 0.0f}});
  }
  std::vector<FusionNote> Run() {
    Settings settings;
    settings.fusion_skip.Add(Fusion::kConvEpilogue);
    settings.fusion_skip.Add(Fusion::kChannelsLast);
    return RunPasses(graph, settings);
  }
  Numbers Of(size_t input) const { return *ir::NumbersOf(graph, graph.nodes[0].inputs[input]); }

  int x, y;
};

TEST(ConvAffineTest, NormalizationScalesWeightsAndBias) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBFloat16, DataType::kDouble}) {
    ConvNet net(type);
    net.Output(net.Norm(net.y, {1, 2}));
    net.Run();
    ASSERT_EQ(net.Operators(), Ops{"Conv"});
    EXPECT_EQ(net.Of(1), (Numbers{0.5, 1, -1.5, 2}));
    EXPECT_EQ(net.Of(2), (Numbers{4, 16}));  // (10 - 4) / 2 + 1, (20 + 8) / 2 + 2
    EXPECT_EQ(net.graph.nodes[0].outputs, net.graph.outputs);
  }
}

TEST(ConvAffineTest, WhatIsLeftAloneIsSaid) {
  const auto missed = [](ConvNet& net) {
    const auto notes = net.Run();
    return notes.size() == 1 ? notes[0].missed : std::to_string(notes.size());
  };
  ConvNet open;
  const int norm = open.Norm(open.y, {1, 2});
  open.graph.nodes.back().inputs[1] = open.Input("scale", {{2}});
  open.Output(norm);
  EXPECT_EQ(missed(open), "it trains, or its numbers are not a constant each channel");
  ConvNet shared;
  shared.Output(shared.Norm(shared.y, {1, 2}));
  shared.Output(shared.Add("Neg", 13, {shared.y}, kImage));
  EXPECT_EQ(missed(shared), "others read what it normalises");
  ConvNet large;
  large.Output(large.Norm(large.y, {6e4, 6e4}));
  EXPECT_EQ(missed(large), "a channel's weights would vanish or leave their type's range");
}

TEST(ConvAffineTest, ProductsAndSumsOfEachChannel) {
  ConvNet net;
  int y = net.Add("Mul", 14, {net.Numbered("s", {2, 1, 1}, {2, -1}), net.y}, kImage);
  y = net.Add("Sub", 14, {y, net.Numbered("t", {1, 2, 1, 1}, {1, 2})}, kImage);
  net.Output(net.Add("Add", 14, {y, net.Numbered("u", {}, {100})}, kImage));
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"Conv"});
  EXPECT_EQ(net.Of(1), (Numbers{2, 4, 3, -4}));
  EXPECT_EQ(net.Of(2), (Numbers{119, 78}));
}

TEST(ConvAffineTest, AConvolutionWithoutBiasGetsOne) {
  ConvNet net;
  net.graph.nodes[0].inputs.resize(2);
  net.Output(net.Add("Add", 14, {net.y, net.Numbered("t", {2, 1, 1}, {1, 2})}, kImage));
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"Conv"});
  EXPECT_EQ(net.Of(2), (Numbers{1, 2}));
}

TEST(ConvAffineTest, WhatIsNotOneValueAChannelStays) {
  const auto left = [](auto&& operand, const char* op = "Add", bool first = false) {
    ConvNet net;
    const int other = operand(net);
    net.Output(net.Add(op, 14, {first ? other : net.y, first ? net.y : other}, kImage));
    net.Run();
    return net.Operators();
  };
  const Ops both{"Conv", "Add"};
  EXPECT_EQ(left([](ConvNet& net) { return net.Numbered("columns", {1, 2}, {1, 2}); }), both);
  EXPECT_EQ(left([](ConvNet& net) { return net.Numbered("rows", {2, 1}, {1, 2}); }), both);
  EXPECT_EQ(left([](ConvNet& net) { return net.Numbered("wide", {1, 1, 2, 1, 1}, {1, 2}); }), both);
  EXPECT_EQ(left([](ConvNet& net) { return net.Input("open", {{2}, {1}, {1}}); }), both);
  EXPECT_EQ(left([](ConvNet& net) { return net.y; }), both);
  EXPECT_EQ(left([](ConvNet& net) { return net.Numbered("c", {}, {1}); }, "Sub", true), (Ops{"Conv", "Sub"}));
  EXPECT_EQ(left([](ConvNet& net) { return net.Numbered("c", {}, {2}); }, "Div"), (Ops{"Conv", "Div"}));
}

TEST(ConvAffineTest, WhatOthersReadOrLeavesStays) {
  ConvNet net;
  net.Output(net.y);
  net.Output(net.Norm(net.y, {1, 2}));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"Conv", "BatchNormalization"}));
}

TEST(ConvAffineTest, TrainingAndWeightsOfARunStay) {
  ConvNet trains;
  const int norm = trains.Norm(trains.y, {1, 2});
  trains.graph.nodes.back().attributes["training_mode"] = int64_t{1};
  trains.Output(norm);
  trains.Run();
  EXPECT_EQ(trains.Operators(), (Ops{"Conv", "BatchNormalization"}));
  ConvNet open;
  open.graph.nodes[0].inputs[1] = open.Input("w", {{2}, {2}, {1}, {1}});
  open.Output(open.Norm(open.y, {1, 2}));
  open.Run();
  EXPECT_EQ(open.Operators(), (Ops{"Conv", "BatchNormalization"}));
}

TEST(ConvAffineTest, WeightsThatWouldLeaveTheirRangeStay) {
  for (const double scale : {30000.0, 0x1p-20, 0.0}) {
    ConvNet net(DataType::kFloat16, {1, 2, -30, 4});
    net.Output(net.Add("Mul", 14, {net.y, net.Numbered("s", {2, 1, 1}, {1, scale})}, kImage));
    net.Run();
    EXPECT_EQ(net.Operators(), (Ops{"Conv", "Mul"})) << scale;
  }
}

}  // namespace
}  // namespace cudaep::graph
