// Batch normalisations in front of convolutions.
#include <gtest/gtest.h>

#include "graph/ir/constants.h"
#include "graph/pass/pass.h"
#include "graph_builder.h"

namespace cudaep::graph {
namespace {

using ir::Dim;
using Numbers = std::vector<double>;

const std::vector<Dim> kImage = {{kUnknownDim, "n"}, {2}, {4}, {4}};

struct NormNet : Builder {
  explicit NormNet(DataType element = DataType::kFloat16, Numbers mean = {1, -1}) : Builder(element) {
    x = Input("x", kImage);
    norm = Add("BatchNormalization", 15,
               {x, Numbered("scale", {2}, {1, 2}), Numbered("bias", {2}, {1, 2}), Numbered("mean", {2}, mean),
                Numbered("variance", {2}, {4, 1})},
               kImage, {{"epsilon", 0.0f}});
  }
  int Numbered(const char* name, Shape dims, const Numbers& numbers) {
    return graph.AddConstant(name, ir::MakeNumbers(type, dims, numbers));
  }
  int Conv(ops::Attributes attributes = {}) {
    return Add("Conv", 11, {norm, Numbered("w", {2, 2, 1, 1}, {2, 3, -4, 6}), Numbered("b", {2}, {10, 20})}, kImage,
               std::move(attributes));
  }
  std::vector<FusionNote> Run() {
    Settings settings;
    for (const Fusion fusion : {Fusion::kConvEpilogue, Fusion::kChannelsLast, Fusion::kChains}) {
      settings.fusion_skip.Add(fusion);
    }
    return RunPasses(graph, settings);
  }
  Numbers Of(size_t input) const { return *ir::NumbersOf(graph, graph.nodes[0].inputs[input]); }

  int x, norm;
};

TEST(ReaderAffineTest, WeightsTakeScalesAndTheBiasTakesShifts) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBFloat16, DataType::kDouble}) {
    NormNet net(type);
    const int y = net.Conv({{"pads", std::vector<int64_t>{0, 0, 0, 0}}});
    net.Output(y);
    const auto notes = net.Run();
    ASSERT_EQ(net.Operators(), Ops{"Conv"});
    EXPECT_EQ(net.graph.nodes[0].inputs[0], net.x);
    EXPECT_EQ(net.graph.nodes[0].outputs, std::vector<int>{y});
    // y0 = x0 / 2 + 1 / 2, y1 = 2 x1 + 4.
    EXPECT_EQ(net.Of(1), (Numbers{1, 6, -2, 12}));
    EXPECT_EQ(net.Of(2), (Numbers{10 + 1 + 12, 20 - 2 + 24}));
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_EQ(notes[0].sources, (Ops{"BatchNormalization", "Conv"}));
  }
}

TEST(ReaderAffineTest, EachGroupReadsItsOwnChannels) {
  NormNet net;
  const int w = net.Numbered("w", {4, 1, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  net.Output(net.Add("Conv", 11, {net.norm, w}, {{kUnknownDim, "n"}, {4}, {4}, {3}}, {{"group", int64_t{2}}}));
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"Conv"});
  EXPECT_EQ(net.Of(1), (Numbers{0.5, 1, 1.5, 2, 10, 12, 14, 16}));
  EXPECT_EQ(net.Of(2), (Numbers{1.5, 3.5, 44, 60}));
}

TEST(ReaderAffineTest, WhatIsNoneOfAReadersStays) {
  const Ops both{"BatchNormalization", "Conv"};
  const auto left = [](auto&& change) {
    NormNet net;
    const int y = net.Conv();
    change(net, net.graph.nodes.back());
    net.Output(y);
    net.Run();
    return net.Operators();
  };
  EXPECT_EQ(left([](NormNet&, ir::Node&) {}), Ops{"Conv"});
  EXPECT_EQ(left([](NormNet&, ir::Node& conv) { conv.attributes["pads"] = std::vector<int64_t>{0, 0, 0, 1}; }), both);
  EXPECT_EQ(left([](NormNet&, ir::Node& conv) { conv.attributes["auto_pad"] = std::string("SAME_UPPER"); }), both);
  EXPECT_EQ(left([](NormNet& net, ir::Node& conv) { conv.inputs[1] = net.Input("w", {{2}, {2}, {1}, {1}}); }), both);
  EXPECT_EQ(left([](NormNet& net, ir::Node& conv) { conv.inputs[2] = net.Input("b", {{2}}); }), both);
  EXPECT_EQ(left([](NormNet& net, ir::Node&) { net.graph.nodes[0].inputs[1] = net.Input("scale", {{2}}); }), both);
  EXPECT_EQ(left([](NormNet& net, ir::Node&) { net.graph.nodes[0].attributes["training_mode"] = int64_t{1}; }), both);
  EXPECT_EQ(left([](NormNet& net, ir::Node&) { net.Output(net.norm); }), both);
  EXPECT_EQ(left([](NormNet& net, ir::Node&) { net.Output(net.Add("Softmax", 13, {net.norm}, kImage)); }),
            (Ops{"BatchNormalization", "Conv", "Softmax"}));
}

// Their weights would be rounded beside much larger products than those of the normalised channels.
TEST(ReaderAffineTest, MeansFarFromZeroStay) {
  for (const Numbers& mean : {Numbers{1, 8}, Numbers{-60, 0}}) {
    NormNet net(DataType::kFloat16, mean);
    net.Output(net.Conv());
    const auto notes = net.Run();
    EXPECT_EQ(net.Operators(), (Ops{"BatchNormalization", "Conv"}));
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_EQ(notes[0].missed, "means that far from 0 would cost the convolution's weights their digits");
  }
}

TEST(ReaderAffineTest, WeightsThatWouldLeaveTheirRangeStay) {
  for (const double weight : {6e4, 0x1p-15}) {
    NormNet net;
    const int w = net.Numbered("w", {2, 2, 1, 1}, {weight, weight / 2, 1, 1});
    net.Output(net.Add("Conv", 11, {net.norm, w}, kImage));
    const auto notes = net.Run();
    EXPECT_EQ(net.Operators(), (Ops{"BatchNormalization", "Conv"})) << weight;
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_EQ(notes[0].missed, "a channel's weights would vanish or leave their type's range");
  }
}

}  // namespace
}  // namespace cudaep::graph
