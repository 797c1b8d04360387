// Products of one tensor: of a decoder's attention, and of gated layers.
#include <gtest/gtest.h>

#include "decoder_net.h"

namespace cudaep::graph {
namespace {

TEST(ProjectionsTest, OfADecoderBecomeOneProduct) {
  DecoderNet net;
  net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"MatMul", "Attention"}));
  const ir::Node &product = net.node(0), &attention = net.node(1);
  EXPECT_EQ(product.inputs[0], net.x);
  EXPECT_TRUE(
      SameDims(net.graph.value(product.inputs[1]).constant.dims(), Shape{kHidden, (kHeads + 2 * kKvHeads) * kSize}));
  EXPECT_EQ(attention.inputs[0], product.outputs[0]);
  EXPECT_EQ(attention.inputs[1], -1);
  EXPECT_EQ(attention.inputs[2], -1);
  EXPECT_EQ(attention.inputs[6], net.cos);
  EXPECT_EQ(std::get<int64_t>(attention.attributes.at("head_size")), kSize);
}

TEST(ProjectionsTest, TheModelsOwnProductIsReadWhole) {
  DecoderNet net({.one_product = true});
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"MatMul", "Attention"}));
  DecoderNet other({.one_product = true});
  other.Output(other.projected[1]);  // made for others, too
  other.Run();
  EXPECT_EQ(other.Operators(), (Ops{"MatMul", "Slice", "Attention"}));
}

TEST(ProjectionsTest, PartsInAnotherOrderStay) {
  DecoderNet net({.repeated = false, .one_product = true});
  ir::Node *first = nullptr, *second = nullptr;
  for (ir::Node& node : net.graph.nodes) {
    if (node.outputs[0] == net.projected[0]) first = &node;
    if (node.outputs[0] == net.projected[1]) second = &node;
  }
  std::swap(first->inputs, second->inputs);
  net.Run();
  EXPECT_EQ(Count(net, "Slice"), 3);
}

// Since version 24 keys that the mask has no column for are hidden, which no other operator knows of.
TEST(ProjectionsTest, MasksThatMayBeShortStay) {
  const auto is_fused = [](int version, std::vector<Dim> mask) {
    Net net;
    const int x = net.Input("x", {kBatch, kRows, {3 * kHidden}});
    std::vector<int> inputs{net.Open("Split", 18, {x}, 3, {{"axis", int64_t{-1}}, {"num_outputs", int64_t{3}}})};
    for (int i = 0; i < 2; ++i) {
      inputs.push_back(net.Value("part", std::vector<Dim>(3)));
      net.graph.nodes.back().outputs.push_back(inputs.back());
    }
    inputs.push_back(net.Input("mask", std::move(mask)));
    net.Output(net.Open("Attention", version, inputs, 3, {{"q_num_heads", kHeads}, {"kv_num_heads", kHeads}}));
    net.Run();
    return Find(net, "Attention") != nullptr;
  };
  for (const Dim& columns : {Dim{5}, Dim{1}, Dim{kUnknownDim, "columns"}, Dim{}}) {
    EXPECT_FALSE(is_fused(24, {kRows, columns})) << columns.size;
    EXPECT_TRUE(is_fused(23, {kRows, columns})) << columns.size;
  }
  EXPECT_TRUE(is_fused(24, {kRows, kRows}));
}

TEST(ProjectionsTest, AProjectionThatOthersReadStays) {
  DecoderNet net;
  net.Output(net.projected[2]);
  net.Run();
  EXPECT_EQ(Count(net, "MatMul"), 3);
}

struct GatedNet : Net {
  explicit GatedNet(int64_t other = kHidden) {
    x = Hidden("x");
    gate = Op("MatMul", {x, Constant("w", {kHidden, kHidden})});
    up = Op("MatMul", {x, Constant("v", {kHidden, other})});
  }
  int Silu(int value) { return Op("Mul", {value, Op("Sigmoid", {value})}); }
  int x, gate, up;
};

TEST(GatedTest, TwoProductsBecomeOne) {
  for (const bool turned : {false, true}) {
    GatedNet net;
    const int bias = net.Constant("bias", {kHidden}), up = turned ? net.Op("Add", {net.up, bias}) : net.up;
    const int silu = net.Silu(net.gate);
    net.Output(net.Op("Mul", turned ? std::vector<int>{up, silu} : std::vector<int>{silu, up}));
    net.Run();
    ASSERT_EQ(net.Operators(), (Ops{"MatMul", "Gated"}));
    EXPECT_TRUE(SameDims(net.graph.value(net.node(0).inputs[1]).constant.dims(), Shape{kHidden, 2 * kHidden}));
    EXPECT_EQ(net.node(0).inputs[2] >= 0, turned);
    EXPECT_EQ(net.node(1).inputs, net.node(0).outputs);
    EXPECT_EQ(std::get<std::string>(net.node(1).attributes.at("activation")), "silu");
    EXPECT_EQ(std::get<int64_t>(net.node(1).attributes.at("activated")), 0);
  }
}

TEST(GatedTest, HalvesOfOneTensor) {
  for (const bool second : {false, true}) {
    Net net;
    const int x = net.Input("x", {kBatch, kRows, {2 * kHidden}});
    const int first = net.Open("Split", 18, {x}, 3, {{"axis", int64_t{-1}}, {"num_outputs", int64_t{2}}});
    const int other = net.Value("other", std::vector<Dim>(3));
    net.graph.nodes.back().outputs.push_back(other);
    const int gate = second ? other : first, plain = second ? first : other;
    net.Output(net.Op("Mul", {net.Open("Gelu", 20, {gate}, 3), plain}));
    net.Run();
    ASSERT_EQ(net.Operators(), Ops{"Gated"});
    EXPECT_EQ(net.node(0).inputs, std::vector<int>{x});
    EXPECT_EQ(std::get<std::string>(net.node(0).attributes.at("activation")), "gelu");
    EXPECT_EQ(std::get<int64_t>(net.node(0).attributes.at("activated")), second ? 1 : 0);
  }
}

TEST(GatedTest, OtherProductsStay) {
  GatedNet neither;
  neither.Output(neither.Op("Mul", {neither.gate, neither.up}));
  GatedNet both;
  both.Output(both.Op("Mul", {both.Silu(both.gate), both.Silu(both.up)}));
  GatedNet read;
  read.Output(read.up);
  read.Output(read.Op("Mul", {read.Silu(read.gate), read.up}));
  GatedNet narrow(1);
  narrow.Output(narrow.Op("Mul", {narrow.Silu(narrow.gate), narrow.up}));
  GatedNet apart;
  const int of_another = apart.Op("MatMul", {apart.Hidden("z"), apart.Constant("w", {kHidden, kHidden})});
  apart.Output(apart.Op("Mul", {apart.Silu(apart.gate), of_another}));
  for (GatedNet* const net : {&neither, &both, &read, &narrow, &apart}) {
    net->Run();
    EXPECT_EQ(Count(*net, "Gated"), 0);
    EXPECT_EQ(Count(*net, "MatMul"), 2);
  }
}

TEST(GatedTest, PartsThatAreNoHalvesStay) {
  Net net;
  const int x = net.Input("x", {kBatch, kRows, {4 * kHidden}}), last = net.Ints("i", {2});
  const auto part = [&](int64_t from) {
    return net.Open("Slice", 13, {x, net.Ints("i", {from}), net.Ints("i", {from + kHidden}), last}, 3);
  };
  net.Output(net.Op("Mul", {net.Op("Relu", {part(0)}), part(kHidden)}));
  net.Run();
  EXPECT_EQ(Count(net, "Gated"), 0);
}

}  // namespace
}  // namespace cudaep::graph
