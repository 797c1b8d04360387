// Normalisation of groups of channels, spelled out and as a node, and in which layout it runs.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/registry.h"
#include "transformer_net.h"

namespace cudaep::graph {
namespace {

constexpr int64_t kChannels = 8, kGroups = 2, kSide = 4;
const std::vector<Dim> kImage = {kBatch, {kChannels}, {kSide}, {kSide}};
const std::vector<Dim> kGrouped = {kBatch, {kGroups}, {kChannels / kGroups * kSide * kSide}};

struct GroupNet : Net {
  GroupNet() { x = Input("x", kImage); }

  int Filled(std::vector<float> values) { return Vector("filled", DataType::kFloat, std::move(values)); }
  int OfChannels(const Shape& dims) { return Constant("channels", dims); }
  int Group(std::vector<Dim> grouped = kGrouped, float scale = 1, float bias = 0) {
    const auto groups = static_cast<size_t>(std::max<int64_t>(grouped[1].size, 1));
    std::vector<int64_t> shape{0};
    for (size_t d = 1; d < grouped.size(); ++d) shape.push_back(grouped[d].size);
    const int split = Add("Reshape", 14, {x, Ints("grouped", shape)}, grouped);
    normal = Add("InstanceNormalization", 6,
                 {split, Filled(std::vector<float>(groups, scale)), Filled(std::vector<float>(groups, bias))}, grouped,
                 {{"epsilon", 0.25f}});
    return Back(normal);
  }
  int Back(int value) { return Add("Reshape", 14, {value, Ints("image", {0, kChannels, kSide, kSide})}, kImage); }
  int On(const char* op, std::vector<int> inputs) { return Add(op, 14, std::move(inputs), kImage); }
  int Affine(int value, const Shape& dims = {kChannels, 1, 1}) {
    return On("Add", {OfChannels(dims), On("Mul", {value, OfChannels(dims)})});
  }
  int Gated(int value) { return On("Mul", {value, On("Sigmoid", {value})}); }
  template <class T>
  T Of(const char* name) const {
    return std::get<T>(node(0).attributes.at(std::string(name)));
  }
  // What `group_norm` nearly did.
  std::vector<std::string> Missed() {
    std::vector<std::string> missed;
    for (const FusionNote& note : Run()) {
      if (note.fusion == Fusion::kGroupNorm) missed.push_back(note.missed);
    }
    return missed;
  }
  bool HasFused() const { return std::ranges::count(Operators(), "GroupNorm") > 0; }

  int x, normal = -1;
};

TEST(GroupNormPassTest, SpelledOutWithScaleBiasAndGate) {
  const std::vector<Shape> forms = {{kChannels, 1, 1}, {1, kChannels, 1, 1}};
  for (const Shape& dims : forms) {
    for (const bool gated : {false, true}) {
      GroupNet net;
      const int affine = net.Affine(net.Group(), dims);
      net.Output(gated ? net.Gated(affine) : affine);
      const auto notes = net.Run();
      ASSERT_EQ(net.Operators(), Ops{"GroupNorm"}) << dims.rank() << gated;
      const ir::Node& node = net.node(0);
      EXPECT_EQ(node.domain, ops::kFusedDomain);
      EXPECT_EQ(node.inputs[0], net.x);
      EXPECT_EQ(node.outputs, net.graph.outputs);
      EXPECT_EQ(net.Of<int64_t>("groups"), kGroups);
      EXPECT_EQ(net.Of<int64_t>("activation"), gated ? 1 : 0);
      EXPECT_EQ(net.Of<int64_t>("channels_last"), 0);
      EXPECT_EQ(net.Of<float>("epsilon"), 0.25f);
      for (const size_t i : {1u, 2u}) {
        EXPECT_EQ(Shape(net.graph.value(node.inputs[i]).constant.dims()), Shape{kChannels});
      }
      EXPECT_EQ(node.sources.size(), gated ? 7u : 5u);
      EXPECT_EQ(notes.size(), 1u);
    }
  }
}

TEST(GroupNormPassTest, ConstantsKeepTheirNumbers) {
  GroupNet net;
  const std::vector<float> numbers{1, 2, 3, 4, 5, 6, 7, 8};
  ops::HostTensor tensor{.type = DataType::kFloat, .dims = {kChannels, 1, 1}, .data = {}};
  tensor.data.resize(tensor.view().bytes());
  std::memcpy(tensor.data.data(), numbers.data(), tensor.data.size());
  const int scale = net.graph.AddConstant("scale", std::move(tensor));
  net.Output(net.On("Mul", {net.Group(), scale}));
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"GroupNorm"});
  const auto made = net.graph.value(net.node(0).inputs[1]).constant.host<float>();
  EXPECT_EQ(std::vector<float>(made.begin(), made.end()), numbers);
  for (const float zero : net.graph.value(net.node(0).inputs[2]).constant.host<float>()) EXPECT_EQ(zero, 0);
}

TEST(GroupNormPassTest, WithoutScaleAndBias) {
  GroupNet net;
  net.Output(net.On("Relu", {net.Group()}));
  net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"GroupNorm", "Relu"}));
  for (const float one : net.graph.value(net.node(0).inputs[1]).constant.host<float>()) EXPECT_EQ(one, 1);
}

TEST(GroupNormPassTest, NodesOfTheModel) {
  for (const int version : {18, 21}) {
    for (const bool gated : {false, true}) {
      GroupNet net;
      const std::vector<float> of_groups{3, 5};
      const int scale = version == 18 ? net.Filled(of_groups) : net.OfChannels({kChannels});
      const int bias = version == 18 ? net.Filled(of_groups) : net.OfChannels({kChannels});
      const int y = net.Add("GroupNormalization", version, {net.x, scale, bias}, kImage,
                            {{"num_groups", kGroups}, {"epsilon", 0.5f}});
      net.Output(gated ? net.Add("Swish", 24, {y}, kImage) : y);
      net.Run();
      ASSERT_EQ(net.Operators(), Ops{"GroupNorm"}) << version << gated;
      EXPECT_EQ(net.Of<int64_t>("activation"), gated ? 1 : 0);
      EXPECT_EQ(net.Of<float>("epsilon"), 0.5f);
      if (version == 21) continue;
      const auto made = net.graph.value(net.node(0).inputs[1]).constant.host<float>();
      EXPECT_EQ(std::vector<float>(made.begin(), made.end()), (std::vector<float>{3, 3, 3, 3, 5, 5, 5, 5}));
    }
  }
}

TEST(GroupNormPassTest, ScalesOfGroupsThatAreNoConstantsStay) {
  GroupNet net;
  const int scale = net.Input("scale", {{kGroups}});
  net.Output(net.Add("GroupNormalization", 18, {net.x, scale, net.Filled({0, 0})}, kImage, {{"num_groups", kGroups}}));
  EXPECT_EQ(net.Missed(), Ops{"scale and bias of groups are no constants"});
  EXPECT_EQ(net.Operators(), Ops{"GroupNormalization"});
}

TEST(GroupNormPassTest, ScalesThatAreNotOfGroupsStay) {
  for (const std::vector<float>& scale : {std::vector<float>{1}, std::vector<float>{1, 2, 3}}) {
    GroupNet net;
    net.Output(net.Add("GroupNormalization", 18, {net.x, net.Filled(scale), net.Filled({0, 0})}, kImage,
                       {{"num_groups", kGroups}}));
    EXPECT_EQ(net.Missed(), Ops{"scale and bias do not have one value for each of 2 groups"});
    EXPECT_EQ(net.Operators(), Ops{"GroupNormalization"});
  }
}

TEST(GroupNormPassTest, GroupsThatCutChannelsStay) {
  GroupNet net;
  net.Output(net.Affine(net.Group({kBatch, {16}, {8}})));
  EXPECT_EQ(net.Missed(), Ops{"8 channels are no multiple of 16 groups"});
  EXPECT_FALSE(net.HasFused());
}

TEST(GroupNormPassTest, OtherDimensionsOfGroupsStay) {
  for (const std::vector<Dim>& grouped :
       {std::vector<Dim>{{2}, {kGroups}, {}}, std::vector<Dim>{kBatch, {2}, {8}, {8}}}) {
    GroupNet net;
    net.Output(net.Affine(net.Group(grouped)));
    EXPECT_EQ(net.Missed(), Ops{"what it reads is not stated to be [batch, groups, the rest]"});
    EXPECT_FALSE(net.HasFused());
  }
}

TEST(GroupNormPassTest, OtherScalesOfGroupsStay) {
  for (const bool scale : {false, true}) {
    GroupNet net;
    net.Output(net.Affine(net.Group(kGrouped, scale ? 2 : 1, scale ? 0 : 1)));
    EXPECT_EQ(net.Missed(), Ops{"scale and bias of groups are not ones and zeros"});
    EXPECT_FALSE(net.HasFused());
  }
}

TEST(GroupNormPassTest, ResultsOfOtherDimensionsStay) {
  GroupNet net;
  net.Group();
  const std::vector<Dim> flat{kBatch, {kChannels}, {kSide * kSide}};
  net.Output(net.Add("Reshape", 14, {net.normal, net.Ints("flat", {0, kChannels, kSide * kSide})}, flat));
  RemoveDeadNodes(net.graph);
  EXPECT_EQ(net.Missed(), Ops{"its result is not stated to have the image's dimensions"});
  EXPECT_FALSE(net.HasFused());
}

TEST(GroupNormPassTest, WhatOthersReadEndsIt) {
  {  // before the way back
    GroupNet net;
    net.Output(net.Affine(net.Group()));
    net.Output(net.normal);
    EXPECT_TRUE(net.Missed().empty());
    EXPECT_FALSE(net.HasFused());
  }
  {  // before the scale
    GroupNet net;
    const int normal = net.Group();
    net.Output(net.Affine(normal));
    net.Output(normal);
    net.Run();
    EXPECT_EQ(net.Operators(), (Ops{"GroupNorm", "Mul", "Add"}));
  }
  {  // before the gate
    GroupNet net;
    const int affine = net.Affine(net.Group());
    net.Output(net.Gated(affine));
    net.Output(affine);
    net.Run();
    EXPECT_EQ(net.Operators(), (Ops{"GroupNorm", "QuickGelu"}));
    EXPECT_EQ(net.Of<int64_t>("activation"), 0);
  }
}

TEST(GroupNormPassTest, ConstantsOfOtherShapesAreNoScales) {
  for (const Shape& dims : {Shape{kChannels, kSide, kSide}, Shape{1, 1, 1}}) {
    GroupNet net;
    net.Output(net.On("Mul", {net.Group(), net.OfChannels(dims)}));
    const auto notes = net.Missed();
    EXPECT_TRUE(std::ranges::count(notes, "it reads no constant of one value for each channel") == 1);
    EXPECT_EQ(net.Operators(), (Ops{"GroupNorm", "Mul"}));
  }
}

TEST(GroupNormPassTest, OtherTypesStay) {
  GroupNet net;
  for (ir::Value& value : net.graph.values) value.type = DataType::kDouble;
  net.type = DataType::kDouble;
  const int scale = net.OfChannels({kChannels});
  net.Output(net.Add("GroupNormalization", 21, {net.x, scale, scale}, kImage, {{"num_groups", kGroups}}));
  net.Run();
  EXPECT_EQ(net.Operators(), Ops{"GroupNormalization"});
}

// Between two convolutions of 16 bits nothing changes the layout.
TEST(GroupNormPassTest, RunsChannelsLastBetweenConvolutions) {
  constexpr int64_t kWide = 16;
  const std::vector<Dim> dims{kBatch, {kWide}, {8}, {8}}, grouped{kBatch, {4}, {256}};
  Builder net(DataType::kFloat16);
  const auto half = [&](uint16_t bits, size_t count) {
    return net.Vector("half", DataType::kFloat16, std::vector<uint16_t>(count, bits));
  };
  const auto conv = [&](int x) {
    return net.Add("Conv", 11, {x, net.Constant("w", {kWide, kWide, 3, 3})}, dims,
                   {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  };
  const int first = conv(net.Input("x", dims));
  const int split = net.Add("Reshape", 14, {first, net.Ints("grouped", {0, 4, -1})}, grouped);
  const int normal = net.Add("InstanceNormalization", 6, {split, half(0x3c00, 4), half(0, 4)}, grouped);
  const int back = net.Add("Reshape", 14, {normal, net.Ints("image", {0, kWide, 8, 8})}, dims);
  const int scaled = net.Add("Mul", 14, {back, net.Constant("scale", {kWide, 1, 1})}, dims);
  const int y = net.Add("Add", 14, {scaled, net.Constant("bias", {kWide, 1, 1})}, dims);
  const int gate = net.Add("Sigmoid", 13, {y}, dims);
  net.Output(conv(net.Add("Mul", 14, {y, gate}, dims)));
  RunPasses(net.graph, WithoutChains());
  ASSERT_EQ(net.Operators(), (Ops{"Transpose", "Conv", "GroupNorm", "Conv", "Transpose"}));
  const ir::Node& norm = net.graph.nodes[2];
  EXPECT_EQ(std::get<int64_t>(norm.attributes.at("channels_last")), 1);
  EXPECT_EQ(std::get<int64_t>(norm.attributes.at("activation")), 1);
}

}  // namespace
}  // namespace cudaep::graph
