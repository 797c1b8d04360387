// Models of QuantizeLinear and DequantizeLinear as products of integers.
#include <gtest/gtest.h>

#include <functional>

#include "graph/ir/constants.h"
#include "graph/pass/quantization.h"
#include "ops/registry.h"
#include "qdq_net.h"

namespace cudaep::graph {
namespace {

const Ops kIntegers = {"QuantizeLinear", "MatMulInteger", "Cast", "Add", "Mul"};

TEST(QdqPassTest, ProductOfActivationsAndWeights) {
  QdqNet net;
  net.Output(net.MatMul(net.Through(net.x), net.Weights(kHidden, kHidden)));
  const auto notes = net.Run();
  ASSERT_EQ(net.Operators(), kIntegers);
  EXPECT_EQ(net.TypeOf(1, 0), DataType::kInt8);
  EXPECT_EQ(CodesOf(net.graph, net.InputOf(0, 2)), std::vector<int32_t>{3 - 128});
  const auto shifts = *ir::NumbersOf(net.graph, net.InputOf(3, 1)),
             scales = *ir::NumbersOf(net.graph, net.InputOf(4, 1));
  for (int n = 0; n < kHidden; ++n) {  // the column is n + 1, n + 9, ...
    const double scale = 0.5 * 0.25 * (n + 1), sum = 8 * (n + 1) + 8 * 28;
    EXPECT_EQ(scales[static_cast<size_t>(n)], scale);
    EXPECT_EQ(shifts[static_cast<size_t>(n)], 125 * sum);
  }
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].sources, (Ops{"DequantizeLinear", "DequantizeLinear", "MatMul"}));
}

TEST(QdqPassTest, NothingIsTakenOffWithoutZeroPoint) {
  QdqNet net;
  net.Output(net.MatMul(net.Through(net.x, 0.5, 0, DataType::kInt8), net.Weights(kHidden, kHidden)));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"QuantizeLinear", "MatMulInteger", "Cast", "Mul"}));
}

// What zero points add up to in a column, 2^24 and more: sums are taken as whole numbers then.
TEST(QdqPassTest, LargeSumsOfWeightsStayWhole) {
  for (const int64_t inner : {1024, 2048}) {
    QdqNet net;
    const int x = net.Input("wide", {kBatch, kRows, {inner}});
    ops::HostTensor tensor{.type = DataType::kInt8, .dims = {inner, 1}, .data = {}};
    tensor.data.assign(static_cast<size_t>(inner), std::byte{127});
    const int w = net.Dequantize(net.graph.AddConstant("w", std::move(tensor)), 0.25, 0);
    net.Output(net.Add("MatMul", 13, {net.Through(x, 0.5, -128, DataType::kInt8), w}, {kBatch, kRows, {1}}));
    net.Run();
    EXPECT_EQ(std::ranges::count(net.Operators(), "MatMulInteger"), inner == 1024 ? 1 : 0) << inner;
  }
}

TEST(QdqPassTest, ResultsOf16Bits) {
  QdqNet net(DataType::kFloat16);
  net.Output(net.MatMul(net.Through(net.x, 0.5, 0, DataType::kInt8), net.Weights(kHidden, kHidden)));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"QuantizeLinear", "MatMulInteger", "Cast", "Mul", "Cast"}));
  EXPECT_EQ(net.graph.value(net.node(3).outputs[0]).type, DataType::kFloat);
}

TEST(QdqPassTest, GemmOfTransposedWeightsAndBias) {
  QdqNet net;
  const int bias =
      net.Add("DequantizeLinear", 21,
              {net.Vector("bias", DataType::kInt32, std::vector<int32_t>(kHidden, 6)), net.Number(0.5)}, {{kHidden}});
  const int a = net.Through(net.Rows("rows"), 0.5, 0, DataType::kInt8);
  net.Output(net.Gemm({a, net.Weights(kHidden, kHidden, 0), bias}, {{"transB", int64_t{1}}, {"alpha", 2.0f}}));
  net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"QuantizeLinear", "MatMulInteger", "Cast", "Mul", "Add"}));
  const auto weights = *CodesOf(net.graph, net.InputOf(1, 1));
  EXPECT_EQ(weights[1], 9);  // the first column's second row
  EXPECT_EQ((*ir::NumbersOf(net.graph, net.InputOf(3, 1)))[1], 2 * 0.5 * 0.5);
  EXPECT_EQ(*ir::NumbersOf(net.graph, net.InputOf(4, 1)), std::vector<double>(kHidden, 3.0));
}

TEST(QdqPassTest, Uint8WeightsAreInt8Of128Less) {
  QdqNet net;
  const int w = net.Dequantize(net.Bytes(kHidden, kHidden, DataType::kUint8), 0.25, 128);
  net.Output(net.MatMul(net.Through(net.x), w));
  net.Run();
  ASSERT_EQ(net.Operators(), kIntegers);
  EXPECT_EQ(net.TypeOf(1, 1), DataType::kInt8);
  EXPECT_EQ((*CodesOf(net.graph, net.InputOf(1, 1)))[0], 1 - 128);
}

TEST(QdqPassTest, WhatLibrariesDoNotTakeIsTheOwnKernels) {
  QdqNet both;
  const int a = both.Through(both.x), b = both.Through(both.Hidden("y"));
  both.Output(both.Quantize(both.MatMul(a, b), 0.25, 9));
  both.Run();
  ASSERT_EQ(both.Operators(), (Ops{"QuantizeLinear", "QuantizeLinear", "QLinearMatMul"}));
  EXPECT_EQ(both.node(2).inputs.size(), 8u);
  EXPECT_EQ(both.graph.value(both.graph.outputs[0]).type, DataType::kUint8);

  QdqNet zeros;
  zeros.Output(zeros.MatMul(zeros.Through(zeros.x), zeros.Dequantize(zeros.Bytes(kHidden, kHidden), 0.25, 2)));
  zeros.Run();
  EXPECT_EQ(zeros.Operators(), (Ops{"QuantizeLinear", "MatMulIntegerToFloat"}));

  // Codes that leave stay what the model has.
  QdqNet leaves;
  const int codes = leaves.Quantize(leaves.x, 0.5, 3);
  leaves.Output(leaves.MatMul(leaves.Dequantize(codes, 0.5, 3), leaves.Weights(kHidden, kHidden)));
  leaves.Output(codes);
  leaves.Run();
  EXPECT_EQ(leaves.Operators(), (Ops{"QuantizeLinear", "MatMulIntegerToFloat"}));
  EXPECT_EQ(leaves.TypeOf(1, 0), DataType::kUint8);
}

TEST(QdqPassTest, WhatFollowsBelongsToTheProduct) {
  QdqNet net;
  const int y = net.Through(net.MatMul(net.Through(net.x), net.Weights(kHidden, kHidden)));
  const int sum = net.Add("Add", 14, {y, net.Constant("bias", {kHidden})}, kHiddenDims);
  const int relu = net.Add("Relu", 14, {net.Through(sum, 0.25, 7)}, kHiddenDims);
  net.Output(net.Op("Softmax", {net.Through(relu, 0.125, 0)}));
  net.Run(Settings());
  EXPECT_EQ(net.Operators(), (Ops{"QuantizeLinear", "MatMulIntegerToCodes", "DequantizeLinear", "Softmax"}));
}

TEST(QdqPassTest, DataMovesAsCodes) {
  QdqNet net;
  const std::vector<Dim> turned = {kBatch, {kHidden}, kRows};
  const int flat = net.Add("Transpose", 13, {net.Through(net.x)}, turned, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  const int again = net.Add("Transpose", 13, {flat}, kHiddenDims, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  net.Output(net.Op("Softmax", {net.Through(again)}));
  Settings settings = WithoutChains();
  settings.fusion_skip.Add(Fusion::kViews);
  net.Run(settings);
  EXPECT_EQ(net.Operators(), (Ops{"QuantizeLinear", "Transpose", "Transpose", "DequantizeLinear", "Softmax"}));
  EXPECT_EQ(net.TypeOf(1, 0), DataType::kInt8);
  EXPECT_EQ(net.TypeOf(3, 0), DataType::kInt8);
}

TEST(QdqPassTest, FloatsMoveWhereNobodyWantsCodes) {
  QdqNet net;
  const int turned = net.Add("Transpose", 13, {net.Through(net.x)}, kHiddenDims);
  net.Output(net.Op("Softmax", {turned}));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"QuantizeLinear", "DequantizeLinear", "Transpose", "Softmax"}));

  // Before version 12 MaxPool takes no bytes.
  for (const auto& [version, type] : {std::pair{11, DataType::kFloat}, std::pair{12, DataType::kInt8}}) {
    QdqNet pool;
    const std::vector<Dim> image = {kBatch, {4}, {8}, {8}};
    const int pooled = pool.Add("MaxPool", version, {pool.Through(pool.Input("image", image))}, image,
                                {{"kernel_shape", std::vector<int64_t>{1, 1}}});
    pool.Output(pool.Op("Softmax", {pool.Through(pooled)}));
    pool.Run();
    size_t at = 0;
    while (pool.node(at).op_type != "MaxPool") ++at;
    EXPECT_EQ(pool.TypeOf(at, 0), type);
  }
}

TEST(QdqPassTest, CodesOfOtherScalesAreMadeAnew) {
  for (const auto& [scale, zero] : {std::pair{0.25, 3}, std::pair{0.5, 4}}) {
    QdqNet net;
    net.Output(net.Op("Softmax", {net.Through(net.Through(net.x), scale, zero)}));
    net.Run();
    EXPECT_EQ(net.Operators(),
              (Ops{"QuantizeLinear", "DequantizeLinear", "QuantizeLinear", "DequantizeLinear", "Softmax"}));
  }
  QdqNet same;
  same.Output(same.Op("Softmax", {same.Through(same.Through(same.x))}));
  same.Run();
  EXPECT_EQ(same.Operators(), (Ops{"QuantizeLinear", "DequantizeLinear", "Softmax"}));
}

TEST(QdqPassTest, WeightsOfFloatConvolutionsAreDequantizedOnce) {
  QdqNet net;
  const std::vector<Dim> image = {kBatch, {1}, {8}, {8}};
  ops::HostTensor codes{.type = DataType::kInt8, .dims = {1, 1, 1, 1}, .data = {std::byte{6}}};
  const int w = net.Add("DequantizeLinear", 21, {net.graph.AddConstant("w", std::move(codes)), net.Number(0.5)},
                        {{1}, {1}, {1}, {1}});
  net.Output(net.Add("Conv", 11, {net.Input("image", image), w}, image));
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"Conv"});
  EXPECT_EQ(ir::NumbersOf(net.graph, net.InputOf(0, 1)), std::vector<double>{3});
}

TEST(QdqPassTest, WhatStandsInTheWayIsNamed) {
  using Build = std::function<int(QdqNet&)>;
  const std::pair<const char*, Build> cases[] = {
      {"scales of the right operand are not those of columns",
       [](QdqNet& net) { return net.MatMul(net.Through(net.x), net.Weights(kHidden, kHidden, 0)); }},
      {"the left operand has several scales",
       [](QdqNet& net) { return net.MatMul(net.Weights(kHidden, kHidden), net.Through(net.x)); }},
      {"the left operand is transposed",
       [](QdqNet& net) {
         return net.Gemm({net.Through(net.Rows("rows")), net.Weights(kHidden, kHidden)}, {{"transA", int64_t{1}}});
       }},
      {"the right operand is transposed",
       [](QdqNet& net) {
         return net.Gemm({net.Through(net.Rows("a")), net.Through(net.Rows("b"))}, {{"transB", int64_t{1}}});
       }},
      {"beta is not 1",
       [](QdqNet& net) {
         return net.Gemm({net.Through(net.Rows("rows")), net.Weights(kHidden, kHidden), net.Constant("c", {kHidden})},
                         {{"beta", 0.5f}});
       }},
      {"sums may not fit 32 bits",
       [](QdqNet& net) {
         return net.MatMul(net.Through(net.Input("long", {kRows, {33026}})),
                           net.Through(net.Input("b", {{33026}, {8}})));
       }},
      {"sums may not fit 32 bits",
       [](QdqNet& net) {
         return net.MatMul(net.Through(net.Input("any", {kRows, kBatch})), net.Through(net.Input("b", {kBatch, {8}})));
       }},
      {"no kernel takes the integers",
       [](QdqNet& net) {
         return net.Gemm({net.Through(net.Rows("a")), net.Through(net.Rows("b"))}, {{"alpha", 0.5f}});
       }},
  };
  for (const auto& [why, build] : cases) {
    QdqNet net;
    net.Output(build(net));
    EXPECT_EQ(Missed(net.Run()), why);
    const Ops operators = net.Operators();
    EXPECT_TRUE(operators.back() == "MatMul" || operators.back() == "Gemm") << why;
  }
}

TEST(QdqPassTest, SharesOfOneFitHoweverManyTheyAre) {
  for (const int64_t axis : {-1, 2, 1}) {
    QdqNet net;
    const int scores = net.Input("scores", {kBatch, kRows, kRows});
    const int soft = net.Add("Softmax", 13, {scores}, {kBatch, kRows, kRows}, {{"axis", axis}});
    net.Output(net.MatMul(net.Through(soft, 1.0 / 255, 0), net.Through(net.x)));
    net.Run();
    EXPECT_EQ(net.Operators().back(), axis == 1 ? "MatMul" : "MatMulIntegerToFloat") << axis;
  }
  // As int8 most are -128, and a library takes no zero points off before it sums.
  QdqNet net;
  const std::vector<Dim> dims = {kRows, {33026}};
  const int soft = net.Add("Softmax", 13, {net.Input("scores", dims)}, dims, {{"axis", int64_t{-1}}});
  const int w = net.Dequantize(net.Bytes(33026, kHidden), 0.25, 0);
  net.Output(net.MatMul(net.Through(soft, 1.0 / 255, 0), w));
  net.Run();
  EXPECT_EQ(net.Operators().back(), "MatMulIntegerToFloat");
}

TEST(QdqPassTest, OneOperandOfFloatsLeavesAll) {
  for (const bool left : {true, false}) {
    QdqNet net;
    const int y = net.Hidden("y"), codes = net.Through(net.x);
    net.Output(left ? net.MatMul(codes, y) : net.MatMul(y, codes));
    EXPECT_TRUE(net.Run().empty());
    EXPECT_EQ(net.Operators(), (Ops{"QuantizeLinear", "DequantizeLinear", "MatMul"}));
  }
}

TEST(QdqPassTest, LeftOutByItsName) {
  QdqNet net;
  const int a = net.Through(net.x), b = net.Weights(kHidden, kHidden);
  net.Output(net.MatMul(a, b));
  Settings settings = WithoutChains();
  settings.fusion_skip.Add(Fusion::kQdq);
  EXPECT_TRUE(net.Run(settings).empty());
  EXPECT_EQ(net.Operators(), (Ops{"QuantizeLinear", "DequantizeLinear", "DequantizeLinear", "MatMul"}));
}

// What speaks against reading a node, one thing at a time.
TEST(QdqPassTest, QuantizationsThatAreNotRead) {
  QdqNet net;
  const int scale = net.Number(0.5), zero = net.Zero(3, DataType::kUint8);
  const auto made = [&](std::vector<int> inputs, ops::Attributes attributes = {}, int version = 21) {
    net.graph.value(net.Add("QuantizeLinear", version, std::move(inputs), kHiddenDims, std::move(attributes))).type =
        DataType::kUint8;
    return QuantizationOf(net.graph, net.graph.nodes.back(), "QuantizeLinear").has_value();
  };
  EXPECT_TRUE(made({net.x, scale, zero}));
  EXPECT_TRUE(made({net.x, scale}));
  EXPECT_FALSE(made({net.x, net.Hidden("scale"), zero}));
  EXPECT_FALSE(made({net.x, scale, net.Hidden("zero")}));
  EXPECT_FALSE(made({net.x, net.Number(-0.5), zero}));
  EXPECT_FALSE(made({net.x, net.Number(0), zero}));
  EXPECT_FALSE(made({net.x, scale, zero}, {{"block_size", int64_t{4}}}));
  EXPECT_FALSE(made({net.x, scale, zero}, {{"precision", static_cast<int64_t>(DataType::kFloat16)}}, 23));
  EXPECT_TRUE(made({net.x, scale, zero}, {{"precision", static_cast<int64_t>(DataType::kFloat)}}, 23));
  const int half = net.graph.AddConstant("half", ir::MakeNumbers(DataType::kFloat16, {}, {0.5}));
  EXPECT_TRUE(made({net.x, half, zero}, {}, 21));
  EXPECT_FALSE(made({net.x, half, zero}, {}, 23));
}

TEST(QdqPassTest, TransposesAroundProductsOfActivations) {
  const std::vector<int64_t> split = {0, 2, 1, 3}, keys = {0, 2, 3, 1}, stays = {0, 1, 2, 3};
  const auto net_of = [&](auto&& build) {
    QdqNet net;
    const std::vector<Dim> heads = {kBatch, kRows, {kHeads}, {kSize}}, turned = {kBatch, {kHeads}, kRows, {kSize}};
    const auto transpose = [&](int value, const std::vector<int64_t>& perm) {
      return net.Add("Transpose", 13, {value}, std::vector<Dim>(4), {{"perm", perm}});
    };
    build(net, transpose, heads, turned);
    net.Run();
    return net;
  };
  const auto perm = [](const QdqNet& net, size_t node, const char* name) {
    return std::get<std::vector<int64_t>>(net.node(node).attributes.at(std::string(name)));
  };
  const QdqNet both = net_of([&](QdqNet& net, auto&& transpose, auto& heads, auto&) {
    const int q = transpose(net.Through(net.Input("q", heads), 0.5, 3, DataType::kInt8), split),
              k = transpose(net.Through(net.Input("k", heads), 0.25, 5, DataType::kInt8), keys);
    net.Output(net.Quantize(net.Add("MatMul", 13, {q, k}, std::vector<Dim>(4)), 2, 1));
  });
  ASSERT_EQ(both.Operators(), (Ops{"QuantizeLinear", "QuantizeLinear", "QuantizedMatMul"}));
  EXPECT_EQ(perm(both, 2, "a_perm"), split);
  EXPECT_EQ(perm(both, 2, "b_perm"), keys);
  EXPECT_EQ(perm(both, 2, "y_perm"), stays);
  EXPECT_EQ(both.InputOf(2, 0), both.node(0).outputs[0]);
  EXPECT_EQ(both.InputOf(2, 3), both.node(1).outputs[0]);
  const QdqNet merged = net_of([&](QdqNet& net, auto&& transpose, auto& heads, auto& turned) {
    const int p = net.Through(net.Input("p", turned), 0.5, 3, DataType::kInt8),
              v = transpose(net.Through(net.Input("v", heads), 0.25, 5, DataType::kInt8), split);
    const int y = net.Through(net.Add("MatMul", 13, {p, v}, std::vector<Dim>(4)), 2, 1);
    net.Output(net.Quantize(transpose(y, split), 2, 1));
  });
  ASSERT_EQ(merged.Operators(),
            (Ops{"QuantizeLinear", "QuantizeLinear", "QuantizedMatMul", "DequantizeLinear", "QuantizeLinear"}));
  EXPECT_EQ(perm(merged, 2, "a_perm"), stays);
  EXPECT_EQ(perm(merged, 2, "b_perm"), split);
  EXPECT_EQ(perm(merged, 2, "y_perm"), split);
  // Where both of a matrix's axes would be apart, or somebody else reads what is transposed, it stays.
  const QdqNet apart = net_of([&](QdqNet& net, auto&& transpose, auto& heads, auto& turned) {
    const int q = transpose(net.Through(net.Input("q", heads), 0.5, 3, DataType::kInt8), {0, 3, 1, 2}),
              k = net.Through(net.Input("k", turned), 0.25, 5, DataType::kInt8);
    net.Output(net.Quantize(net.Add("MatMul", 13, {q, k}, std::vector<Dim>(4)), 2, 1));
  });
  EXPECT_EQ(apart.Operators().back(), "QLinearMatMul");
  const QdqNet shared = net_of([&](QdqNet& net, auto&& transpose, auto& heads, auto& turned) {
    const int q = transpose(net.Through(net.Input("q", heads), 0.5, 3, DataType::kInt8), split);
    for (const char* name : {"k", "l"}) {
      const int k = net.Through(net.Input(name, turned), 0.25, 5, DataType::kInt8);
      net.Output(net.Quantize(net.Add("MatMul", 13, {q, k}, std::vector<Dim>(4)), 2, 1));
    }
  });
  EXPECT_EQ(std::ranges::count(shared.Operators(), "QLinearMatMul"), 2);
}

TEST(QdqPassTest, TransposesAroundProductsOfSeveralZeroPointsStay) {
  constexpr int64_t kCount = 3, kColumns = 4;
  const auto last_of = [&](size_t vector) {
    QdqNet net;
    const auto codes = [&](const char* name, std::vector<Dim> dims) {
      return net.Quantize(net.Input(name, std::move(dims)), 0.5, 3, DataType::kInt8);
    };
    const int a = codes("a", {{kCount}, {kHidden}}), b = codes("b", {{kColumns}, {kHidden}});
    const int turned = net.Add("Transpose", 13, {b}, {{kHidden}, {kColumns}}, {{"perm", std::vector<int64_t>{1, 0}}});
    net.graph.value(turned).type = DataType::kInt8;
    const auto zero = [&](size_t input, int64_t count) {
      return input == vector ? net.Vector("zeros", DataType::kInt8, std::vector<int8_t>(static_cast<size_t>(count), 2))
                             : net.Zero(2, DataType::kInt8);
    };
    const int y = net.Add("QLinearMatMul", 10,
                          {a, net.Number(0.5), zero(2, kCount), turned, net.Number(0.25), zero(5, kColumns),
                           net.Number(2), net.Zero(1, DataType::kInt8)},
                          {{kCount}, {kColumns}});
    net.graph.value(y).type = DataType::kInt8;
    net.Output(y);
    net.Run();
    return net.Operators().back();
  };
  EXPECT_EQ(last_of(0), "QuantizedMatMul");
  EXPECT_EQ(last_of(2), "QLinearMatMul");  // a zero point for each row
  EXPECT_EQ(last_of(5), "QLinearMatMul");  // for each column
}

TEST(QdqPassTest, NumbersThatAreAddedUpAreReadAsCodes) {
  QdqNet net;
  const int codes = net.Quantize(net.Op("Softmax", {net.x}), 0.5, 3, DataType::kInt8);
  const int product = net.MatMul(net.Dequantize(codes, 0.5, 3), net.Weights(kHidden, kHidden));
  net.Output(net.Op("Add", {product, net.Dequantize(codes, 0.5, 3)}));
  net.QdqNet::Run({});
  // The second chain reads the product's sums and the codes.
  ASSERT_EQ(net.Operators(), (Ops{"Softmax", "QuantizeLinear", "MatMulInteger", "Elementwise"}));
  EXPECT_EQ(std::ranges::count(net.node(3).inputs, net.node(1).outputs[0]), 1);
}

TEST(QdqPassTest, NoReaderWritesNumbersForAnother) {
  QdqNet net;
  const int codes = net.Quantize(net.Op("Softmax", {net.x}), 0.5, 3, DataType::kInt8);
  const int numbers = net.Dequantize(codes, 0.5, 3);
  const int sum = net.Op("Add", {net.MatMul(numbers, net.Weights(kHidden, kHidden)), numbers});
  net.Output(net.Op("Add", {net.Op("Softmax", {sum}), numbers}));
  net.QdqNet::Run({});
  ASSERT_EQ(net.Operators(),
            (Ops{"Softmax", "QuantizeLinear", "MatMulInteger", "Elementwise", "Softmax", "Elementwise"}));
  for (const size_t chain : {size_t{3}, size_t{5}}) {
    EXPECT_EQ(net.node(chain).outputs.size(), 1u);
    EXPECT_EQ(std::ranges::count(net.node(chain).inputs, codes), 1);
  }
}

TEST(QdqPassTest, SameCodesAreDequantizedOnce) {
  QdqNet net;
  const int codes = net.Quantize(net.Op("Softmax", {net.x}), 0.5, 3, DataType::kInt8);
  for (const double scale : {0.5, 0.5, 0.5, 0.25}) net.Output(net.Op("Softmax", {net.Dequantize(codes, scale, 3)}));
  net.QdqNet::Run({});
  EXPECT_EQ(std::ranges::count(net.Operators(), "Softmax"), 5);
  EXPECT_EQ(
      std::ranges::count(net.Operators(), "DequantizeLinear") + std::ranges::count(net.Operators(), "Elementwise"), 3);
}

}  // namespace
}  // namespace cudaep::graph
