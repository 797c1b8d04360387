// Products of codes that end in codes as one node.
#include <gtest/gtest.h>

#include "ops/registry.h"
#include "qdq_net.h"

namespace cudaep::graph {
namespace {

struct ProductNet : QdqNet {
  // The product of a tensor of int8 codes and weights, and its codes back as numbers.
  int Product() { return MatMul(Through(x, 0.5, 0, DataType::kInt8), Weights(kHidden, kHidden)); }
  int Biased(int value) { return Add("Add", 14, {value, Constant("bias", {kHidden})}, kHiddenDims); }
  float FloatOf(size_t index, const char* name) const {
    return std::get<std::vector<float>>(node(index).attributes.at(name)).at(0);
  }
  int64_t IntOf(size_t index, const char* name) const {
    return std::get<std::vector<int64_t>>(node(index).attributes.at(name)).at(0);
  }
  bool Has(size_t index, const char* name) const { return node(index).attributes.contains(name); }
};

const Ops kDone = {"QuantizeLinear", "MatMulIntegerToCodes"};

TEST(ProductCodesTest, BothQuantizationsAndTheBias) {
  ProductNet net;
  const int y =
      net.Quantize(net.Biased(net.Through(net.Product(), 0.25, 7, DataType::kInt8)), 0.125, -9, DataType::kInt8);
  net.Output(y);
  net.Run(Settings());
  ASSERT_EQ(net.Operators(), kDone);
  EXPECT_EQ(net.node(1).domain, ops::kFusedDomain);
  EXPECT_EQ(net.node(1).outputs, std::vector<int>{y});
  ASSERT_EQ(net.node(1).inputs.size(), 6u);
  EXPECT_EQ(net.graph.value(net.node(1).inputs[2]).constant.elems(), kHidden);
  EXPECT_EQ(net.node(1).inputs[3], -1);  // no zero point, so nothing is taken off
  EXPECT_EQ(net.graph.value(net.node(1).inputs[4]).name, "bias");
  EXPECT_EQ(net.node(1).inputs[5], -1);
  EXPECT_EQ(net.FloatOf(1, "first_scale"), 0.25f);
  EXPECT_EQ(net.IntOf(1, "first_zero"), 7);
  EXPECT_EQ(net.IntOf(1, "first_lowest"), -128);
  EXPECT_EQ(net.FloatOf(1, "y_scale"), 0.125f);
  EXPECT_EQ(net.IntOf(1, "y_zero"), -9);
  EXPECT_EQ(net.IntOf(1, "y_lowest"), -128);
}

TEST(ProductCodesTest, ZeroPointsOfTheOperandAreTakenOff) {
  ProductNet net;
  net.Output(net.Quantize(net.MatMul(net.Through(net.x), net.Weights(kHidden, kHidden)), 0.125, 0));
  net.Run(Settings());
  ASSERT_EQ(net.Operators(), kDone);
  EXPECT_EQ(net.graph.value(net.node(1).inputs[3]).constant.elems(), kHidden);
  EXPECT_EQ(net.node(1).inputs[4], -1);
  EXPECT_FALSE(net.Has(1, "first_scale"));
}

TEST(ProductCodesTest, AFunctionOfTheCodesIsATable) {
  ProductNet net;
  const int codes = net.Through(net.Biased(net.Through(net.Product(), 0.25, 7)), 0.125, 3);
  const int y = net.Quantize(net.Op("Tanh", {codes}), 0.01, 0, DataType::kInt8);
  net.Output(y);
  net.Run(Settings());
  ASSERT_EQ(net.Operators(), kDone);
  EXPECT_EQ(net.node(1).outputs, std::vector<int>{y});
  EXPECT_EQ(net.graph.value(net.node(1).inputs[5]).constant.elems(), 256);
}

// Codes that others read are an output; what follows is left to itself.
TEST(ProductCodesTest, CodesThatAreReadTwiceEndTheProduct) {
  ProductNet net;
  const int codes = net.Quantize(net.Product(), 0.125, 3);
  net.Output(codes);
  net.Output(net.Quantize(net.Op("Tanh", {net.Dequantize(codes, 0.125, 3)}), 0.01, 0, DataType::kInt8));
  net.Run(Settings());
  EXPECT_EQ(net.Operators(), (Ops{"QuantizeLinear", "MatMulIntegerToCodes", "Elementwise"}));
}

TEST(ProductCodesTest, ProductsOfOneTensorAreOne) {
  const auto build = [](ProductNet& net, int64_t last_columns) {
    const int a = net.Through(net.x, 0.5, 3, DataType::kInt8);
    std::vector<int> outputs;
    for (int i = 0; i < 3; ++i) {
      const int64_t columns = i == 2 ? last_columns : kHidden;
      int y = net.Add("MatMul", 13, {a, net.Weights(kHidden, columns)}, {kBatch, kRows, {columns}});
      y = net.Through(y, 0.25 * (i + 1), i, DataType::kInt8);
      if (i == 1) y = net.Biased(y);
      outputs.push_back(net.Quantize(y, 0.125, -i, DataType::kInt8));
      net.Output(outputs.back());
    }
    return outputs;
  };
  ProductNet net;
  const std::vector<int> outputs = build(net, kHidden);
  net.Run(Settings());
  ASSERT_EQ(net.Operators(), kDone);
  EXPECT_EQ(net.node(1).outputs, outputs);
  for (const size_t input : {1u, 2u, 3u, 4u}) {
    EXPECT_EQ(net.graph.value(net.node(1).inputs[input]).constant.dims().back(), 3 * kHidden) << input;
  }
  const ops::TensorView bias = net.graph.value(net.node(1).inputs[4]).constant;
  EXPECT_EQ(bias.host<float>()[0], 0);  // of the first, which has none
  EXPECT_EQ(std::get<std::vector<float>>(net.node(1).attributes.at("first_scale")),
            (std::vector<float>{0.25f, 0.5f, 0.75f}));
  EXPECT_EQ(std::get<std::vector<int64_t>>(net.node(1).attributes.at("y_zero")), (std::vector<int64_t>{0, -1, -2}));

  ProductNet other;
  build(other, 2 * kHidden);
  other.Run(Settings());
  EXPECT_EQ(other.Operators(), (Ops{"QuantizeLinear", "MatMulIntegerToCodes", "MatMulIntegerToCodes"}));

  ProductNet apart;
  build(apart, kHidden);
  Settings settings;
  settings.fusion_skip.Add(Fusion::kProjections);
  apart.Run(settings);
  EXPECT_EQ(std::ranges::count(apart.Operators(), "MatMulIntegerToCodes"), 3);
}

// Without codes behind the bias, or without a bias: the first ones are the last.
TEST(ProductCodesTest, NumbersThatSomebodyReadsComeOfTheCodes) {
  ProductNet floats;
  floats.Output(floats.Op("Softmax", {floats.Through(floats.Product(), 0.25, 7)}));
  floats.Run(Settings());
  EXPECT_EQ(floats.Operators(), (Ops{"QuantizeLinear", "MatMulIntegerToCodes", "DequantizeLinear", "Softmax"}));

  ProductNet biased;
  biased.Output(biased.Op("Softmax", {biased.Biased(biased.Through(biased.Product(), 0.25, 7))}));
  biased.Run(Settings());
  EXPECT_EQ(biased.Operators(), (Ops{"QuantizeLinear", "MatMulIntegerToCodes", "Elementwise", "Softmax"}));
}

TEST(ProductCodesTest, WhatIsNoSuchProductStaysAChain) {
  ProductNet plain;
  plain.Output(plain.Biased(plain.Product()));
  const auto notes = plain.Run(Settings());
  EXPECT_EQ(plain.Operators(), (Ops{"QuantizeLinear", "MatMulInteger", "Elementwise"}));
  const bool missed = std::ranges::any_of(
      notes, [](const FusionNote& note) { return note.missed.find("does not end in codes") != std::string::npos; });
  EXPECT_TRUE(missed);

  ProductNet of_rows;  // a sum with another tensor
  const int sum = of_rows.Add("Add", 14, {of_rows.Product(), of_rows.Hidden("residual")}, kHiddenDims);
  of_rows.Output(of_rows.Quantize(sum, 0.125, 3));
  of_rows.Run(Settings());
  EXPECT_EQ(of_rows.Operators(), (Ops{"QuantizeLinear", "MatMulInteger", "Elementwise"}));

  ProductNet off;
  off.Output(off.Quantize(off.Product(), 0.125, 3));
  off.Run(WithoutChains());
  EXPECT_EQ(off.Operators(), (Ops{"QuantizeLinear", "MatMulInteger", "Cast", "Mul", "QuantizeLinear"}));
}

}  // namespace
}  // namespace cudaep::graph
