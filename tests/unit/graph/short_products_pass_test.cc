// Which products may run as convolutions.
#include <gtest/gtest.h>

#include "ops/registry.h"
#include "transformer_net.h"

namespace cudaep::graph {
namespace {

// Of 16 bits, [batch, rows, 8] times [8, 8].
struct ShortNet : Net {
  explicit ShortNet(DataType type = DataType::kFloat16, Shape weights = {kHidden, kHidden}) : Net(type) {
    x = Hidden("x");
    w = Constant("w", std::move(weights));
  }
  bool IsMarked(size_t index) const { return node(index).attributes.contains("own_weights"); }
  int x, w;
};

size_t MarkedOf(ShortNet& net, const Settings& settings = WithoutChains()) {
  net.Run(settings);
  size_t marked = 0;
  for (size_t n = 0; n < net.graph.nodes.size(); ++n) marked += net.IsMarked(n) ? 1 : 0;
  return marked;
}

TEST(ShortProductsTest, AProductAloneIsMadeOne) {
  for (DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    ShortNet net(type);
    net.Output(net.Op("MatMul", {net.x, net.w}));
    const auto notes = net.Run(WithoutChains());
    ASSERT_EQ(net.Operators(), Ops{"MatMul"});
    EXPECT_EQ(net.node(0).domain, ops::kFusedDomain);
    EXPECT_TRUE(net.IsMarked(0));
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_EQ(notes[0].fusion, Fusion::kShortProducts);
  }
}

TEST(ShortProductsTest, ProductsWithWhatFollowsThem) {
  ShortNet net;
  const int sum = net.Op("Add", {net.Op("MatMul", {net.x, net.w}), net.Constant("bias", {kHidden})});
  net.Output(net.Open("Gelu", 20, {sum}, 3));
  EXPECT_EQ(MarkedOf(net), 1u);
  ASSERT_EQ(net.Operators(), Ops{"MatMul"});
  EXPECT_EQ(std::get<std::string>(net.node(0).attributes.at("activation")), "gelu");
}

TEST(ShortProductsTest, GemmOfEitherForm) {
  for (const int64_t transposed : {0, 1}) {
    ShortNet net;
    const std::vector<Dim> dims = {kBatch, {kHidden}};
    const int a = net.Input("a", dims), c = net.Constant("c", {kHidden});
    net.Output(net.Add("Gemm", 13, {a, net.w, c}, dims, {{"transB", transposed}}));
    EXPECT_EQ(MarkedOf(net), 1u);
    ASSERT_EQ(net.Operators(), Ops{"MatMul"});
    EXPECT_EQ(net.node(0).inputs, (std::vector<int>{a, net.w, c, -1}));
  }
}

TEST(ShortProductsTest, WhatTheEngineDoesNotTakeStays) {
  ShortNet wide(DataType::kFloat);
  wide.Output(wide.Op("MatMul", {wide.x, wide.w}));
  EXPECT_EQ(MarkedOf(wide), 0u);
  ShortNet odd(DataType::kFloat16, {kHidden, kHidden + 4});
  odd.Output(odd.Op("MatMul", {odd.x, odd.w}));
  EXPECT_EQ(MarkedOf(odd), 0u);
  ShortNet computed;
  computed.Output(computed.Op("MatMul", {computed.x, computed.Hidden("y")}));
  EXPECT_EQ(MarkedOf(computed), 0u);
  ShortNet turned;
  turned.Output(turned.Add("Gemm", 13, {turned.Input("a", {{kHidden}, kRows}), turned.w}, {kRows, {kHidden}},
                           {{"transA", int64_t{1}}}));
  EXPECT_EQ(MarkedOf(turned), 0u);
}

TEST(ShortProductsTest, WeightsThatOthersReadAreNotPacked) {
  ShortNet net;
  net.Output(net.Op("MatMul", {net.Op("MatMul", {net.x, net.w}), net.w}));
  EXPECT_EQ(MarkedOf(net), 0u);
}

TEST(ShortProductsTest, MoreRowsThanItIsFor) {
  for (const int64_t rows : {16, 17}) {
    ShortNet net;
    const std::vector<Dim> dims = {{16}, {rows}, {kHidden}};
    net.Output(net.Add("MatMul", 13, {net.Input("a", dims), net.w}, dims));
    EXPECT_EQ(MarkedOf(net), rows == 16 ? 1u : 0u);
  }
}

// Those have a kernel of their own, which wants the weights as few rows do.
TEST(ShortProductsTest, ManyRowsWithGelu) {
  for (const auto& [activation, opset, residual, marked] :
       {std::tuple{"Gelu", 20, false, 1u}, {"Gelu", 20, true, 0u}, {"Relu", 14, false, 0u}}) {
    ShortNet net;
    const std::vector<Dim> dims = {{16}, {17}, {kHidden}};
    int sum = net.Add("MatMul", 13, {net.Input("a", dims), net.w}, dims);
    sum = net.Add("Add", 14, {sum, net.Constant("bias", {kHidden})}, dims);
    if (residual) sum = net.Add("Add", 14, {sum, net.Input("r", dims)}, dims);
    net.Output(net.Add(activation, opset, {sum}, dims));
    EXPECT_EQ(MarkedOf(net), marked) << activation << residual;
    EXPECT_EQ(net.Operators(), Ops{"MatMul"});
  }
}

TEST(ShortProductsTest, SettingsThatWantOtherwise) {
  for (int i = 0; i < 3; ++i) {
    Settings settings = WithoutChains();
    if (i == 0) settings.deterministic = true;
    if (i == 1) settings.gemm_path = GemmPath::kLibrary;
    if (i == 2) settings.fusion_skip.Add(Fusion::kShortProducts);
    ShortNet net;
    net.Output(net.Op("MatMul", {net.x, net.w}));
    EXPECT_EQ(MarkedOf(net, settings), 0u);
    EXPECT_EQ(net.node(0).domain, "");
  }
}

TEST(ShortProductsTest, AnAttentionWithItsProjections) {
  ShortNet net;
  const std::vector<Dim> dims = {kBatch, kRows, {kHidden}};
  const int weights = net.Constant("qkv", {kHidden, 3 * kHidden}), bias = net.Constant("bias", {3 * kHidden});
  net.Output(net.Add("Attention", 1, {net.x, weights, bias}, dims, {{"num_heads", int64_t{2}}}));
  net.graph.nodes.back().domain = ops::kMicrosoftDomain;
  EXPECT_EQ(MarkedOf(net), 1u);
  EXPECT_EQ(net.Operators(), Ops{"Attention"});
}

// activation(x W) * (x V) of 16 bits: one node with packed weights, whatever rows the model states.
struct GatedNet : Net {
  explicit GatedNet(DataType type = DataType::kFloat16, int64_t rows = -1) : Net(type) {
    x = rows < 0 ? Hidden("x") : Input("x", {{rows}, {kHidden}});
    gate = Op("MatMul", {x, Constant("w", {kHidden, kHidden})});
    up = Op("MatMul", {x, Constant("v", {kHidden, kHidden})});
  }
  int Silu(int value) { return Op("Mul", {value, Op("Sigmoid", {value})}); }
  int x, gate, up;
};

TEST(GatedProductsTest, AProductAndItsGateAreOne) {
  for (const int64_t rows : {-1, 4096}) {
    for (const bool biased : {false, true}) {
      GatedNet net(DataType::kFloat16, rows);
      const int up = biased ? net.Op("Add", {net.up, net.Constant("bias", {kHidden})}) : net.up;
      net.Output(net.Op("Mul", {net.Silu(net.gate), up}));
      const auto notes = net.Run();
      ASSERT_EQ(net.Operators(), Ops{"GatedMatMul"});
      EXPECT_TRUE(net.node(0).attributes.contains("own_weights"));
      EXPECT_EQ(std::get<std::string>(net.node(0).attributes.at("gate")), "silu");
      EXPECT_EQ(net.node(0).inputs.size(), 3u);
      EXPECT_EQ(net.node(0).inputs[2] >= 0, biased);
      EXPECT_TRUE(std::ranges::any_of(notes, [](const auto& n) { return n.fusion == Fusion::kGatedProducts; }));
    }
  }
}

TEST(GatedProductsTest, OthersStayApart) {
  GatedNet wide(DataType::kFloat);  // no kernel of its own
  wide.Output(wide.Op("Mul", {wide.Silu(wide.gate), wide.up}));
  wide.Run();
  EXPECT_EQ(wide.Operators(), (Ops{"MatMul", "Gated"}));
  GatedNet skipped;
  skipped.Output(skipped.Op("Mul", {skipped.Silu(skipped.gate), skipped.up}));
  Settings settings = WithoutChains();
  settings.fusion_skip.Add(Fusion::kGatedProducts);
  skipped.Run(settings);
  EXPECT_EQ(skipped.Operators(), (Ops{"MatMul", "Gated"}));
  // Halves of a product that others read.
  Net read(DataType::kFloat16);
  const int whole = read.Op("MatMul", {read.Hidden("x"), read.Constant("w", {kHidden, 2 * kHidden})});
  const int first = read.Open("Split", 18, {whole}, 3, {{"axis", int64_t{-1}}, {"num_outputs", int64_t{2}}});
  const int other = read.Value("other", std::vector<Dim>(3));
  read.graph.nodes.back().outputs.push_back(other);
  read.Output(whole);
  read.Output(read.Op("Mul", {read.Open("Gelu", 20, {first}, 3), other}));
  const auto notes = read.Run();
  EXPECT_EQ(read.Operators(), (Ops{"MatMul", "Gated"}));
  EXPECT_TRUE(std::ranges::any_of(notes, [](const auto& n) { return n.missed.find("others read") != n.missed.npos; }));
}

}  // namespace
}  // namespace cudaep::graph
