// Which Concats of channels are made by those who make their parts.
#include "graph/ir/attributes.h"
#include "image_net.h"

namespace cudaep::graph {
namespace {

class ImagePartsTest : public ImageTest {
 protected:
  int Silu(int value, int64_t channels) {
    const int gate = net.Add("Sigmoid", 13, {value}, Image(channels));
    return net.Add("Mul", 14, {value, gate}, Image(channels));
  }
  int Activated(int value, int64_t from, int64_t to) { return Silu(Conv(value, from, to), to); }
  // Two halves of the channels.
  std::vector<int> Split(int value, int64_t channels, int64_t axis = 1) {
    const int first = net.Add("Split", 18, {value}, Image(channels / 2), {{"axis", axis}, {"num_outputs", int64_t{2}}});
    const int second = net.Value("Split", Image(channels / 2));
    net.graph.nodes.back().outputs.push_back(second);
    return {first, second};
  }
  int Concat(std::vector<int> values, int64_t channels) {
    return net.Add("Concat", 13, std::move(values), Image(channels), {{"axis", int64_t{1}}});
  }
  // Convolutions behind it, for which images lie channels last.
  void Finish(int value, int64_t channels, Settings settings = WithoutChains()) {
    net.Output(net.Add("GlobalMaxPool", 1, {Conv(value, channels)}, Image(kChannels, 1)));
    notes = RunPasses(net.graph, settings);
    for (const ir::Node& node : net.graph.nodes) {
      const ops::KernelRow* const row = ops::FindRow(node.domain, node.op_type, node.since_version);
      ASSERT_NE(row, nullptr) << node.op_type;
      EXPECT_TRUE(ops::MakeOperator(ir::NodeInfo(net.graph, node, settings), *row).ok()) << node.op_type;
    }
    CheckOrder();
  }
  int64_t Count(const char* op) const {
    return std::ranges::count_if(net.graph.nodes, [&](const ir::Node& node) { return node.op_type == op; });
  }
  // -1: it has no such attribute.
  std::vector<int64_t> Firsts(const char* name) const {
    std::vector<int64_t> firsts;
    for (const ir::Node& node : net.graph.nodes) {
      if (node.op_type == "Conv") firsts.push_back(ir::IntAttribute(node, name, -1));
    }
    return firsts;
  }
  std::vector<std::string> Notes() const {
    std::vector<std::string> texts;
    for (const FusionNote& note : notes) {
      if (note.fusion == Fusion::kImageParts) texts.push_back(Describe(note));
    }
    return texts;
  }
};

TEST_F(ImagePartsTest, ACrossStageBlockHasNoCopy) {
  const std::vector<int> halves = Split(Activated(x, kChannels, 32), 32);
  const int inner = Activated(Activated(halves[1], 16, 16), 16, 16);
  const int sum = net.Add("Add", 14, {halves[1], inner}, Image(16));
  Finish(Concat({halves[0], halves[1], sum}, 48), 48);
  EXPECT_EQ(Count("Concat") + Count("Split") + Count("PlaceParts") + Count("Add"), 0);
  EXPECT_EQ(Firsts("y_first"), (std::vector<int64_t>{0, -1, 32, -1}));
  EXPECT_EQ(Firsts("x_first"), (std::vector<int64_t>{-1, 16, -1, -1}));
  EXPECT_EQ(Firsts("residual_first"), (std::vector<int64_t>{-1, -1, 16, -1}));
  EXPECT_EQ(Firsts("y_channels"), (std::vector<int64_t>{48, -1, 48, -1}));
  // One tensor, from one to the next.
  std::vector<const ir::Node*> convs;
  for (const ir::Node& node : net.graph.nodes) {
    if (node.op_type == "Conv") convs.push_back(&node);
  }
  EXPECT_EQ(convs[0]->inputs[4], -1);
  EXPECT_EQ(convs[2]->inputs[4], convs[0]->outputs[0]);
  EXPECT_EQ(convs[1]->inputs[0], convs[0]->outputs[0]);
  EXPECT_EQ(convs[2]->inputs[3], convs[0]->outputs[0]);
  EXPECT_EQ(convs[3]->inputs[0], convs[2]->outputs[0]);
  EXPECT_EQ(SizesOf(convs[0]->outputs[0]), (std::vector<int64_t>{kUnknownDim, 8, 8, 48}));
  EXPECT_EQ(Notes(), (Ops{"fusion image_parts: Conv + Sigmoid + Mul + Split + Conv + Sigmoid + Mul + Add + Concat"}));
}

// As TorchScript writes chunk.
TEST_F(ImagePartsTest, PiecesMayBeSlices) {
  const auto slices = [&](int64_t first, int64_t last) {
    const int whole = Activated(x, kChannels, 32);
    std::vector<int> pieces;
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{first, 16}, {16, last}}) {
      const std::vector<int> inputs{whole, net.Ints("start", {begin}), net.Ints("end", {end}), net.Ints("axis", {1})};
      pieces.push_back(net.Add("Slice", 13, inputs, Image(std::min<int64_t>(end, 32) - begin)));
    }
    return pieces;
  };
  std::vector<int> pieces = slices(0, INT64_MAX);
  pieces.push_back(Activated(pieces[1], 16, 16));
  Finish(Concat(pieces, 48), 48);
  EXPECT_EQ(Count("Concat") + Count("Slice"), 0);
  EXPECT_EQ(Firsts("y_first"), (std::vector<int64_t>{0, 32, -1}));
  EXPECT_EQ(Firsts("x_first"), (std::vector<int64_t>{-1, 16, -1}));

  // Not all of it.
  net = Builder{DataType::kFloat16};
  x = net.Input("x", Image(kChannels));
  Finish(Concat(slices(0, 24), 24), 24);
  EXPECT_EQ(Firsts("y_first"), (std::vector<int64_t>{-1, -1}));
}

TEST_F(ImagePartsTest, ASplitWhosePieceIsReadElsewhereStays) {
  const int whole = Activated(x, kChannels, 32);
  const std::vector<int> halves = Split(whole, 32);
  const std::vector<int> inputs{whole, net.Ints("start", {16}), net.Ints("end", {32}), net.Ints("axis", {1})};
  const int second = net.Add("Slice", 13, inputs, Image(16));
  net.Output(net.Add("GlobalMaxPool", 1, {halves[1]}, Image(16, 1)));
  Finish(Concat({halves[0], second}, 32), 32);
  EXPECT_EQ(Firsts("y_first"), (std::vector<int64_t>{-1, -1}));
}

TEST_F(ImagePartsTest, WhatOthersMakeIsCopiedBeside) {
  const int pooled =
      net.Add("MaxPool", 12, {Activated(x, kChannels, 8)}, Image(8), {{"kernel_shape", std::vector<int64_t>{1, 1}}});
  Finish(Concat({pooled, Activated(x, kChannels, 24), pooled}, 40), 40);
  ASSERT_EQ(Count("PlaceParts"), 1);
  EXPECT_EQ(Count("Concat"), 0);
  const auto placed = std::ranges::find(net.graph.nodes, "PlaceParts", &ir::Node::op_type);
  EXPECT_EQ(std::get<std::vector<int64_t>>(placed->attributes.at("firsts")), (std::vector<int64_t>{0, 32}));
  EXPECT_EQ(Firsts("y_first"), (std::vector<int64_t>{-1, 8, -1}));
}

TEST_F(ImagePartsTest, PartsInTheOrderInWhichTheyAreMade) {
  const int first = Activated(x, kChannels, 8), second = Activated(x, kChannels, 24);
  Finish(Concat({second, first}, 32), 32);
  EXPECT_EQ(Count("Concat"), 0);
  EXPECT_EQ(Firsts("y_first"), (std::vector<int64_t>{24, 0, -1}));
}

TEST_F(ImagePartsTest, PartsThatOthersReadStay) {
  const int first = Activated(x, kChannels, 16);
  net.Output(net.Add("GlobalAveragePool", 1, {first}, Image(16, 1)));
  Finish(Concat({first, first}, 32), 32);
  EXPECT_EQ(Count("Concat"), 1);
  ASSERT_EQ(Notes().size(), 1u);
  EXPECT_NE(Notes()[0].find("left alone: Concat; a part is read by GlobalAveragePool"), std::string::npos)
      << Notes()[0];
}

TEST_F(ImagePartsTest, OnePartTwiceOrInTwoResultsStays) {
  const int first = Activated(x, kChannels, 16);
  net.Output(net.Add("GlobalMaxPool", 1, {Conv(Concat({first, first}, 32), 32)}, Image(kChannels, 1)));
  const int second = Activated(x, kChannels, 16);
  net.Output(net.Add("GlobalMaxPool", 1, {Conv(Concat({second, x}, 32), 32)}, Image(kChannels, 1)));
  Finish(Concat({x, second}, 32), 32);
  EXPECT_EQ(Count("Concat"), 3);
  EXPECT_EQ(Firsts("y_first"), (std::vector<int64_t>(Firsts("y_first").size(), -1)));
}

TEST_F(ImagePartsTest, PartsOfASplitThatAreNotAllJoinedInOrderStay) {
  for (const bool turned : {true, false}) {
    net = Builder{DataType::kFloat16};
    x = net.Input("x", Image(kChannels));
    const std::vector<int> halves = Split(Activated(x, kChannels, 32), 32);
    const int last = turned ? halves[0] : Activated(halves[1], 16, 16);
    Finish(Concat({turned ? halves[1] : halves[0], last}, 32), 32);
    for (const std::string& note : Notes()) EXPECT_EQ(note.find("Split"), std::string::npos) << note;
    EXPECT_EQ(Firsts("x_first"), std::vector<int64_t>(Firsts("x_first").size(), -1));
  }
}

TEST_F(ImagePartsTest, OddChannelsOpenOnesAndGroupsStay) {
  Finish(Concat({Activated(x, kChannels, 12), Activated(x, kChannels, 12)}, 24), 24);
  EXPECT_EQ(Count("Concat"), 1);
  net = Builder{DataType::kFloat16};
  x = net.Input("x", Image(kChannels));
  const int grouped = Silu(Conv(x, kChannels, 16, {{"group", int64_t{16}}}), 16);
  Finish(Concat({grouped, x}, 32), 32);
  EXPECT_EQ(Count("Concat"), 1);
}

TEST_F(ImagePartsTest, ConvolutionsWithPrecompiledEnginesStay) {
  const int plain = Conv(x, kChannels, 16), rectified = net.Add("Relu", 14, {Conv(x, kChannels, 16)}, Image(16));
  const int read = Activated(x, kChannels, 16);
  net.Output(net.Add("GlobalMaxPool", 1, {Conv(read)}, Image(kChannels, 1)));
  Finish(Concat({plain, rectified, read}, 48), 48);
  EXPECT_EQ(Count("Concat"), 1);
  ASSERT_EQ(Notes().size(), 1u);
  EXPECT_NE(Notes()[0].find("a part is read by Conv"), std::string::npos) << Notes()[0];
}

TEST_F(ImagePartsTest, WhatLeavesIsACopy) {
  const int joined = Concat({Activated(x, kChannels, 16), Activated(x, kChannels, 16)}, 32);
  net.Output(joined);
  Finish(joined, 32);
  EXPECT_EQ(Count("Concat"), 0);
  EXPECT_EQ(Count("Transpose"), 2);
}

TEST_F(ImagePartsTest, NothingIsPlacedWhereNothingIsCompiled) {
  for (const int option : {0, 1, 2}) {
    net = Builder{DataType::kFloat16};
    x = net.Input("x", Image(kChannels));
    Settings settings = WithoutChains();
    if (option == 0) settings.deterministic = true;
    if (option == 1) settings.compiled_engines = false;
    if (option == 2) settings.fusion_skip.Add(Fusion::kImageParts);
    Finish(Concat({Activated(x, kChannels, 16), Activated(x, kChannels, 16)}, 32), 32, settings);
    EXPECT_EQ(Count("Concat"), 1) << option;
  }
}

}  // namespace
}  // namespace cudaep::graph
