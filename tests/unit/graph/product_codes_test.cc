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
  // MatMulInteger as a model may have it, times constants; its codes.
  int OfIntegers(int a, int b, int scale, std::vector<int> zeros = {}) {
    std::vector<int> inputs = {a, b};
    inputs.insert(inputs.end(), zeros.begin(), zeros.end());
    const int sums = Add("MatMulInteger", 10, std::move(inputs), kHiddenDims);
    graph.value(sums).type = DataType::kInt32;
    const auto to = static_cast<int64_t>(DataType::kFloat);
    const int reals = Add("Cast", 13, {sums}, kHiddenDims, {{"to", to}});
    return Quantize(Add("Mul", 14, {reals, scale}, kHiddenDims), 0.125, 3);
  }
  int CodesOfX(DataType type) { return Quantize(x, 0.5, 0, type); }
  int ColumnScales() { return Constant("scales", {kHidden}); }
  Ops Left(int y) {
    Output(y);
    notes = Run(Settings());
    return Operators();
  }
  bool Missed(const char* why) const {
    return std::ranges::any_of(notes,
                               [&](const FusionNote& note) { return note.missed.find(why) != std::string::npos; });
  }
  float FloatOf(size_t index, const char* name) const {
    return std::get<std::vector<float>>(node(index).attributes.at(name)).at(0);
  }
  int64_t IntOf(size_t index, const char* name) const {
    return std::get<std::vector<int64_t>>(node(index).attributes.at(name)).at(0);
  }
  bool Has(size_t index, const char* name) const { return node(index).attributes.contains(name); }

  std::vector<FusionNote> notes;
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

TEST(ProductCodesTest, CodesOfTwoTablesEndTheProduct) {
  ProductNet net;
  const int codes = net.Through(net.Product(), 0.125, 3);
  net.Output(net.Quantize(net.Op("Tanh", {codes}), 0.01, 0, DataType::kInt8));
  net.Output(net.Quantize(net.Op("Sigmoid", {codes}), 0.01, 0, DataType::kInt8));
  net.Run(Settings());
  EXPECT_EQ(net.Operators(), (Ops{"QuantizeLinear", "MatMulIntegerToCodes", "Elementwise", "Elementwise"}));
  EXPECT_EQ(net.node(1).inputs[5], -1);
}

// What a table gives is the product's result, whoever reads it.
TEST(ProductCodesTest, CodesOfATableThatAreReadTwice) {
  ProductNet net;
  const int y = net.Quantize(net.Op("Tanh", {net.Through(net.Product(), 0.125, 3)}), 0.01, 0, DataType::kInt8);
  net.Output(y);
  net.Output(net.Op("Softmax", {net.Dequantize(y, 0.01, 0)}));
  net.Run(Settings());
  EXPECT_EQ(net.Operators(), (Ops{"QuantizeLinear", "MatMulIntegerToCodes", "DequantizeLinear", "Softmax"}));
  EXPECT_EQ(net.node(1).outputs, std::vector<int>{y});
}

// Those in front of the bias, which the model gives away: the rest is another node's.
TEST(ProductCodesTest, FirstCodesThatLeaveEndTheProduct) {
  ProductNet net;
  const int first = net.Quantize(net.Product(), 0.25, 7);
  net.Output(first);
  net.Output(net.Quantize(net.Biased(net.Dequantize(first, 0.25, 7)), 0.125, 3));
  net.Run(Settings());
  ASSERT_EQ(net.Operators(), (Ops{"QuantizeLinear", "MatMulIntegerToCodes", "Elementwise"}));
  EXPECT_EQ(net.node(1).outputs, std::vector<int>{first});
  EXPECT_EQ(net.node(1).inputs[4], -1);
  EXPECT_FALSE(net.Has(1, "first_scale"));
}

TEST(ProductCodesTest, ARequantizationToOtherNumbersEndsTheProduct) {
  const std::pair<double, int> others[] = {{0.5, 7}, {0.25, 8}};
  for (const auto& [scale, zero] : others) {
    ProductNet net;
    const int first = net.Quantize(net.Product(), 0.25, 7);
    net.Output(net.Quantize(net.Biased(net.Dequantize(first, scale, zero)), 0.125, 3));
    net.Run(Settings());
    ASSERT_EQ(net.Operators(), (Ops{"QuantizeLinear", "MatMulIntegerToCodes", "Elementwise"})) << scale;
    EXPECT_EQ(net.node(1).inputs[4], -1);
    EXPECT_FALSE(net.Has(1, "first_scale"));
    EXPECT_EQ(net.FloatOf(1, "y_scale"), 0.25f);
  }
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
  EXPECT_EQ(plain.Left(plain.Biased(plain.Product())), (Ops{"QuantizeLinear", "MatMulInteger", "Elementwise"}));
  EXPECT_TRUE(plain.Missed("does not end in codes"));

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

// A model's own MatMulInteger is one too, if it is of int8, without zero points, of constant weights and to one number
// for each column.
TEST(ProductCodesTest, AProductOfTheModel) {
  ProductNet net;
  const int a = net.CodesOfX(DataType::kInt8), b = net.Bytes(kHidden, kHidden);
  EXPECT_EQ(net.Left(net.OfIntegers(a, b, net.ColumnScales())), kDone);
}

TEST(ProductCodesTest, OtherProductsOfTheModelStayAsTheyAre) {
  const Ops stays = {"QuantizeLinear", "MatMulInteger", "Elementwise"};
  ProductNet unsigned_a;
  const int codes = unsigned_a.CodesOfX(DataType::kUint8);
  const int bytes = unsigned_a.Bytes(kHidden, kHidden);
  EXPECT_EQ(unsigned_a.Left(unsigned_a.OfIntegers(codes, bytes, unsigned_a.ColumnScales())), stays);

  ProductNet unsigned_b;
  const int of_b = unsigned_b.Bytes(kHidden, kHidden, DataType::kUint8);
  const int signed_codes = unsigned_b.CodesOfX(DataType::kInt8);
  EXPECT_EQ(unsigned_b.Left(unsigned_b.OfIntegers(signed_codes, of_b, unsigned_b.ColumnScales())), stays);

  ProductNet computed;
  const int weights = computed.Input("weights", {{kHidden}, {kHidden}});
  computed.graph.value(weights).type = DataType::kInt8;
  const int left = computed.CodesOfX(DataType::kInt8);
  EXPECT_EQ(computed.Left(computed.OfIntegers(left, weights, computed.ColumnScales())), stays);

  for (const bool of_b_too : {false, true}) {
    ProductNet zeros;
    const int a = zeros.CodesOfX(DataType::kInt8), b = zeros.Bytes(kHidden, kHidden);
    const int zero = zeros.Zero(1, DataType::kInt8);
    const std::vector<int> inputs = of_b_too ? std::vector{-1, zero} : std::vector{zero};
    EXPECT_EQ(zeros.Left(zeros.OfIntegers(a, b, zeros.ColumnScales(), inputs)), stays) << of_b_too;
  }
}

TEST(ProductCodesTest, ScalesThatAreNoVectorOfColumns) {
  const Ops stays = {"QuantizeLinear", "MatMulInteger", "Elementwise"};
  const auto left = [](auto scale_of) {
    ProductNet net;
    const int a = net.CodesOfX(DataType::kInt8), b = net.Bytes(kHidden, kHidden);
    return net.Left(net.OfIntegers(a, b, scale_of(net)));
  };
  EXPECT_EQ(left([](ProductNet& net) { return net.Scalar(0.5f); }), stays);
  EXPECT_EQ(left([](ProductNet& net) { return net.Constant("one", {1}); }), stays);
  EXPECT_EQ(left([](ProductNet& net) { return net.Input("computed", {{kHidden}}); }), stays);
  EXPECT_EQ(left([](ProductNet& net) { return net.Hidden("whole"); }), stays);
}

TEST(ProductCodesTest, ARowOfScalesIsAVector) {
  ProductNet net;
  const int a = net.CodesOfX(DataType::kInt8), b = net.Bytes(kHidden, kHidden);
  EXPECT_EQ(net.Left(net.OfIntegers(a, b, net.Constant("row", {1, kHidden}))),
            (Ops{"QuantizeLinear", "MatMulIntegerToCodes"}));
}

// Codes of uint8 that the model gives away stay such; weights that it computes are no constant.
TEST(ProductCodesTest, OtherOperandsAreMultipliedToCodesOtherwise) {
  ProductNet given;
  const int a = given.Quantize(given.x, 0.5, 3);
  given.Output(a);
  EXPECT_EQ(
      given.Left(given.Quantize(given.MatMul(given.Dequantize(a, 0.5, 3), given.Weights(kHidden, kHidden)), 0.125, 3)),
      (Ops{"QuantizeLinear", "QLinearMatMul"}));

  ProductNet computed;
  const int b = computed.Through(computed.Input("weights", {{kHidden}, {kHidden}}), 0.25, 0, DataType::kInt8);
  const int y = computed.MatMul(computed.Through(computed.x, 0.5, 0, DataType::kInt8), b);
  EXPECT_EQ(computed.Left(computed.Quantize(y, 0.125, 3)), (Ops{"QuantizeLinear", "QuantizeLinear", "QLinearMatMul"}));
}

TEST(ProductCodesTest, LastCodesOfSeveralScales) {
  ProductNet net;
  const int product = net.Product();
  const int scales = net.graph.AddConstant(
      "scales", ir::MakeNumbers(DataType::kFloat, {kHidden}, std::vector<double>(kHidden, 0.125)));
  const int y = net.Add("QuantizeLinear", 21, {product, scales}, kHiddenDims, {{"axis", int64_t{2}}});
  net.graph.value(y).type = DataType::kUint8;
  const Ops left = net.Left(y);
  EXPECT_EQ(std::ranges::count(left, "MatMulIntegerToCodes"), 0);
  EXPECT_EQ(std::ranges::count(left, "MatMulInteger"), 1);
  EXPECT_TRUE(net.Missed("does not end in codes"));
}

// Products and quotients of such scales are no numbers of fp32.
TEST(ProductCodesTest, ExtremeScalesStayApart) {
  for (const double scale : {1e-37, 1e30}) {
    ProductNet net;
    net.Output(net.Quantize(net.Through(net.Product(), 0.25, 7), scale, 0, DataType::kInt8));
    net.Run(Settings());
    EXPECT_EQ(std::ranges::count(net.Operators(), "MatMulIntegerToCodes"), 1) << scale;  // to the first codes
    EXPECT_EQ(net.FloatOf(1, "y_scale"), 0.25f);
    ProductNet only;
    only.Output(only.Quantize(only.Product(), scale, 0, DataType::kInt8));
    only.Run(Settings());
    EXPECT_EQ(std::ranges::count(only.Operators(), "MatMulIntegerToCodes"), 0) << scale;
  }
}

}  // namespace
}  // namespace cudaep::graph
