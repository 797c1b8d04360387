// Element-wise nodes as chains.
#include <gtest/gtest.h>

#include <limits>

#include "ops/registry.h"
#include "transformer_net.h"

namespace cudaep::graph {
namespace {

struct ChainNet : Net {
  using Net::Net;
  ChainNet() { x = Hidden("x"), bias = Constant("bias", {kHidden}); }

  std::vector<FusionNote> Run(const Settings& settings = {}) { return Net::Run(settings); }

  std::vector<std::string> Functions(size_t index) const {
    return std::get<std::vector<std::string>>(node(index).attributes.at("functions"));
  }
  std::vector<int64_t> Ints(size_t index, const char* name) const {
    return std::get<std::vector<int64_t>>(node(index).attributes.at(std::string(name)));
  }
  std::vector<float> Numbers(size_t index) const {
    return std::get<std::vector<float>>(node(index).attributes.at("numbers"));
  }
  int Typed(DataType element, const char* op, std::vector<int> inputs, ops::Attributes attributes = {}) {
    const int output = Open(op, 13, std::move(inputs), 3, std::move(attributes));
    graph.value(output).type = element;
    return output;
  }
  int x = -1, bias = -1;
};

TEST(ChainsPassTest, NodesInARow) {
  ChainNet net;
  const int y = net.Op("Relu", {net.Op("Add", {net.bias, net.Op("Mul", {net.x, net.Scalar(0.5f)})})});
  net.Output(y);
  const auto notes = net.Run();
  ASSERT_EQ(net.Operators(), Ops{"Elementwise"});
  EXPECT_EQ(net.node(0).domain, ops::kFusedDomain);
  EXPECT_EQ(net.node(0).inputs, (std::vector<int>{net.x, net.bias}));
  EXPECT_EQ(net.node(0).outputs, std::vector<int>{y});
  EXPECT_EQ(net.Functions(0), (Ops{"Mul", "Add", "Relu"}));
  EXPECT_EQ(net.Ints(0, "operands"), (std::vector<int64_t>{0, -1, -1, 1, 2, -1, 3, -1, -1}));
  EXPECT_EQ(net.Numbers(0), (std::vector<float>{0.5f, 0, 0, 0, 0, 0}));
  EXPECT_EQ(net.Ints(0, "results"), std::vector<int64_t>{4});
  EXPECT_EQ(net.node(0).sources, (Ops{"Mul", "Add", "Relu"}));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].fusion, Fusion::kChains);
}

TEST(ChainsPassTest, OfInputsAloneTheyComeFirst) {
  ChainNet net;
  const int first = net.Op("Softmax", {net.x});
  const int wide = net.Op("Reshape", {net.Hidden("mask"), net.Constant("shape", {2})});
  const int mask = net.Op("Exp", {net.Op("Neg", {wide})});
  const int once = net.Op("Exp", {net.Op("Neg", {net.Hidden("other")})});
  const int later = net.Op("Exp", {net.Op("Neg", {first})});
  net.Output(net.Op("MatMul", {net.Op("MatMul", {first, mask}), mask}));
  net.Output(net.Op("MatMul", {later, net.Op("MatMul", {later, once})}));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"Reshape", "Elementwise", "Softmax", "Elementwise", "Elementwise", "MatMul", "MatMul",
                                  "MatMul", "MatMul"}));
  EXPECT_EQ(net.node(1).outputs, std::vector<int>{mask});
}

TEST(ChainsPassTest, BranchesThatMeet) {
  ChainNet net;
  const int a = net.Op("Exp", {net.x}), b = net.Op("Abs", {net.Hidden("other")});
  const int small = net.Typed(DataType::kBool, "Less", {a, b});
  net.Output(net.Op("Where", {small, a, net.Op("Sqrt", {b})}));
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"Elementwise"});
  EXPECT_EQ(net.Functions(0), (Ops{"Exp", "Abs", "Less", "Sqrt", "Where"}));
}

// A chain computes in fp32 and rounds once, which may be a little below the whole number that the model's roundings
// meet.
TEST(ChainsPassTest, WholeNumbersAreMadeOfWhatTheModelRounds) {
  for (const DataType element : {DataType::kFloat16, DataType::kBFloat16, DataType::kFloat}) {
    ChainNet net(element);
    const int x = net.Hidden("x"), ratio = net.Op("Log", {net.Op("Abs", {x})});
    net.Output(net.Typed(DataType::kInt64, "Cast", {net.Op("Mul", {ratio, ratio})}, {{"to", int64_t{7}}}));
    net.Output(net.Op("Relu", {net.Op("Exp", {x})}));
    net.Run();
    EXPECT_EQ(net.Operators(), element == DataType::kFloat ? (Ops{"Elementwise", "Cast", "Elementwise"})
                                                           : (Ops{"Abs", "Log", "Mul", "Cast", "Elementwise"}));
  }
}

TEST(ChainsPassTest, WholeNumbersOfWhatIsMoved) {
  ChainNet net(DataType::kFloat16);
  const int x = net.Hidden("x");
  const int y =
      net.Open("Transpose", 13, {net.Op("Exp", {net.Op("Abs", {x})})}, 3, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  net.Output(net.Typed(DataType::kInt64, "Cast", {y}, {{"to", int64_t{7}}}));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"Abs", "Exp", "Transpose", "Cast"}));
}

// Truth is whole without being cut off.
TEST(ChainsPassTest, NumbersMadeOfTruthAreNoWholeNumbers) {
  ChainNet net(DataType::kFloat16);
  const int x = net.Hidden("x");
  const int large = net.Typed(DataType::kBool, "Greater", {net.Op("Exp", {net.Op("Abs", {x})}), x});
  net.Output(net.Typed(DataType::kInt64, "Cast", {large}, {{"to", int64_t{7}}}));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"Elementwise", "Cast"}));
}

TEST(ChainsPassTest, WhatOthersReadLeavesToo) {
  ChainNet net;
  const int sum = net.Op("Add", {net.x, net.bias}), y = net.Op("Relu", {sum});
  const int soft = net.Op("Softmax", {sum});
  net.Output(y);
  net.Output(soft);
  net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"Elementwise", "Softmax"}));
  EXPECT_EQ(net.node(0).outputs, (std::vector<int>{y, sum}));  // the last one first
  EXPECT_EQ(net.Ints(0, "results"), (std::vector<int64_t>{3, 2}));

  ChainNet leaves;
  const int first = leaves.Op("Exp", {leaves.x});
  leaves.Output(first);
  leaves.Output(leaves.Op("Neg", {first}));
  leaves.Run();
  ASSERT_EQ(leaves.Operators(), Ops{"Elementwise"});
  EXPECT_EQ(leaves.node(0).outputs.size(), 2u);
}

TEST(ChainsPassTest, WhatIsReadBetweenStays) {
  ChainNet net;
  const int a = net.Op("Exp", {net.x});
  net.Output(net.Op("Mul", {a, net.Op("Softmax", {a})}));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"Exp", "Softmax", "Mul"}));
}

TEST(ChainsPassTest, ChainsDoNotWaitForEachOther) {
  // Each of {a, d} and {b, c} reads what the other makes.
  ChainNet net;
  const int a = net.Op("Exp", {net.x}), b = net.Op("Exp", {net.Hidden("other")});
  net.Output(net.Op("Add", {net.Op("Softmax", {a}), b}));
  net.Output(net.Op("Add", {net.Op("Softmax", {b}), a}));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"Exp", "Softmax", "Elementwise", "Softmax", "Add"}));
  EXPECT_EQ(net.node(2).sources, (Ops{"Exp", "Add"}));
}

TEST(ChainsPassTest, OneNodeStays) {
  ChainNet net;
  net.Output(net.Op("Relu", {net.Op("Softmax", {net.Op("Exp", {net.x})})}));
  EXPECT_TRUE(net.Run().empty());
  EXPECT_EQ(net.Operators(), (Ops{"Exp", "Softmax", "Relu"}));
}

TEST(ChainsPassTest, ResultsOfOtherDimensionsAreOtherChains) {
  ChainNet net;
  const int row = net.Input("row", {{kHidden}});
  const int gate = net.Open("Sqrt", 13, {net.Open("Exp", 13, {row}, 1)}, 1);
  net.Output(net.Op("Relu", {net.Op("Mul", {net.x, gate})}));
  net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"Elementwise", "Elementwise"}));
  EXPECT_EQ(net.Functions(0), (Ops{"Exp", "Sqrt"}));
  EXPECT_EQ(net.Functions(1), (Ops{"Mul", "Relu"}));
}

TEST(ChainsPassTest, DimensionsThatAreNotKnownToBeTheSame) {
  ChainNet net;
  const int other = net.Input("other", {{kUnknownDim, "n"}, kRows, {kHidden}});
  net.Output(net.Op("Relu", {net.Op("Add", {net.Op("Exp", {net.x}), net.Op("Exp", {other})})}));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"Exp", "Exp", "Elementwise"}));
}

TEST(ChainsPassTest, OfTypesThatTheKernelHas) {
  for (const auto& [type, joined] : {std::pair{DataType::kFloat, true},
                                     {DataType::kFloat16, true},
                                     {DataType::kBFloat16, true},
                                     {DataType::kDouble, false},
                                     {DataType::kInt64, false},
                                     {DataType::kInt32, false}}) {
    ChainNet net(type);
    const int x = net.Hidden("x");
    net.Output(net.Op("Abs", {net.Op("Add", {x, x})}));
    net.Run();
    EXPECT_EQ(net.Operators(), joined ? Ops{"Elementwise"} : (Ops{"Add", "Abs"})) << DataTypeName(type);
  }
}

TEST(ChainsPassTest, CastsToFloatsAndTruth) {
  for (const auto& [from, to, function] : {std::tuple{DataType::kInt64, DataType::kFloat, "Float32"},
                                           {DataType::kFloat16, DataType::kFloat, "Float32"},
                                           {DataType::kFloat, DataType::kFloat16, "Float16"},
                                           {DataType::kInt32, DataType::kBFloat16, "BFloat16"},
                                           {DataType::kFloat, DataType::kBool, "Truth"},
                                           {DataType::kDouble, DataType::kFloat, ""},
                                           {DataType::kFloat, DataType::kInt64, ""},
                                           {DataType::kUint8, DataType::kFloat, "Float32"},
                                           {DataType::kUint16, DataType::kFloat, ""}}) {
    ChainNet net(from);
    const int x = net.Hidden("x");
    const int cast = net.Typed(to, "Cast", {x}, {{"to", static_cast<int64_t>(to)}});
    net.Output(net.Typed(to, to == DataType::kBool ? "Not" : "Abs", {cast}));
    net.Run();
    if (*function == 0) {
      EXPECT_EQ(net.Operators(), (Ops{"Cast", "Abs"})) << DataTypeName(from);
      continue;
    }
    ASSERT_EQ(net.Operators(), Ops{"Elementwise"}) << DataTypeName(from);
    EXPECT_EQ(net.Functions(0)[0], function);
  }
}

TEST(ChainsPassTest, QuantizationAndItsInverse) {
  for (const int zero : {3, 0}) {
    ChainNet net;
    const int half = net.Scalar(0.5f);
    const int point =
        net.graph.AddConstant("zero", {.type = DataType::kUint8, .dims = {}, .data = {static_cast<std::byte>(zero)}});
    const int codes = net.Typed(DataType::kUint8, "QuantizeLinear", {net.Op("Abs", {net.x}), half, point});
    net.Output(codes);
    net.Output(net.Op("DequantizeLinear", {codes, half, point}));
    Settings settings;
    settings.fusion_skip.Add(Fusion::kQdq);
    net.Run(settings);
    ASSERT_EQ(net.Operators(), Ops{"Elementwise"});
    if (zero == 0) {
      EXPECT_EQ(net.Functions(0), (Ops{"Abs", "Quantize", "Affine"}));
      EXPECT_EQ(net.Numbers(0), (std::vector<float>{0, 0, 0.5f, 0, 0.5f, 0}));
    } else {
      EXPECT_EQ(net.Functions(0), (Ops{"Abs", "Quantize", "Affine", "Affine", "Affine"}));
      EXPECT_EQ(net.Numbers(0), (std::vector<float>{0, 0, 0.5f, -3, 1, 3, 1, -3, 0.5f, 0}));
    }
    EXPECT_EQ(net.node(0).outputs.size(), 2u);
  }
}

TEST(ChainsPassTest, ScalesOfTheLastDimension) {
  for (const auto& [axis, size, type, joined] : {std::tuple{2, int64_t{kHidden}, DataType::kInt8, true},
                                                 {-1, int64_t{kHidden}, DataType::kInt32, true},
                                                 {1, int64_t{kHidden}, DataType::kInt8, false},
                                                 {2, int64_t{kHidden}, DataType::kInt16, false}}) {
    ChainNet net;
    const int codes = net.Hidden("codes");
    net.graph.value(codes).type = type;
    const int scale = net.Vector("scale", DataType::kFloat, std::vector<float>(static_cast<size_t>(size), 0.5f));
    const int y = net.Open("DequantizeLinear", 21, {codes, scale}, 3, {{"axis", int64_t{axis}}});
    net.Output(net.Op("Abs", {y}));
    net.Run();
    EXPECT_EQ(net.Operators(), joined ? Ops{"Elementwise"} : (Ops{"DequantizeLinear", "Abs"})) << axis;
  }
}

// What would not be exact is left to the operators: scales of several zero points, and those that quotients leave fp32
// by.
TEST(ChainsPassTest, QuantizationsThatAreNotTheKernels) {
  ChainNet tiny;
  const int codes = tiny.Typed(DataType::kUint8, "QuantizeLinear", {tiny.Op("Abs", {tiny.x}), tiny.Scalar(1e-30f)});
  tiny.Output(codes);
  tiny.Run();
  EXPECT_EQ(tiny.Operators(), (Ops{"Abs", "QuantizeLinear"}));

  ChainNet zeros;
  const int bytes = zeros.Hidden("codes");
  zeros.graph.value(bytes).type = DataType::kInt8;
  const int scale = zeros.Vector("scale", DataType::kFloat, std::vector<float>(kHidden, 0.5f));
  const int points = zeros.Vector("zeros", DataType::kInt8, std::vector<int8_t>(kHidden, 1));
  const int y = zeros.Open("DequantizeLinear", 21, {bytes, scale, points}, 3, {{"axis", int64_t{2}}});
  zeros.Output(zeros.Op("Abs", {y}));
  zeros.Run();
  EXPECT_EQ(zeros.Operators(), (Ops{"DequantizeLinear", "Abs"}));
}

TEST(ChainsPassTest, ClipBetweenNumbersInOrder) {
  ChainNet net;
  net.Output(net.Op("Clip", {net.Op("Exp", {net.x}), net.Scalar(-1), net.Scalar(2)}));
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"Elementwise"});
  EXPECT_EQ(net.Numbers(0), (std::vector<float>{0, 0, -1, 2}));

  ChainNet crossed;
  crossed.Output(crossed.Op("Clip", {crossed.Op("Exp", {crossed.x}), crossed.Scalar(2), crossed.Scalar(-1)}));
  crossed.Run();
  EXPECT_EQ(crossed.Operators(), (Ops{"Exp", "Clip"}));

  ChainNet given;
  given.Output(given.Op("Clip", {given.Op("Exp", {given.x}), given.Input("low", {})}));
  given.Run();
  EXPECT_EQ(given.Operators(), (Ops{"Exp", "Clip"}));
}

TEST(ChainsPassTest, ClipOfAnInfinityBeforeVersion11) {
  constexpr float kLargest = std::numeric_limits<float>::max(), kInfinity = std::numeric_limits<float>::infinity();
  for (const auto& [type, version, most] : {std::tuple{DataType::kFloat, 6, kLargest},
                                            {DataType::kFloat16, 6, kInfinity},
                                            {DataType::kFloat, 13, kInfinity}}) {
    ChainNet net(type);
    net.Output(net.Open("Clip", version, {net.Op("Exp", {net.Hidden("x")})}, 3));
    net.Run();
    ASSERT_EQ(net.Operators(), Ops{"Elementwise"});
    EXPECT_EQ(net.Numbers(0), (std::vector<float>{0, 0, -most, most})) << DataTypeName(type) << version;
  }
}

TEST(ChainsPassTest, NumbersThatGiveTheRankAreInputs) {
  ChainNet net;
  const int row = net.Input("row", {{kHidden}}), number = net.Constant("number", {1, 1});
  net.Output(net.Open("Relu", 13, {net.Open("Add", 13, {row, number}, 2)}, 2));
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"Elementwise"});
  EXPECT_EQ(net.node(0).inputs, (std::vector<int>{row, number}));
}

TEST(ChainsPassTest, LongChainsAreSeveral) {
  ChainNet net;
  int value = net.x;
  for (int i = 0; i < 100; ++i) value = net.Op(i % 2 == 0 ? "Abs" : "Exp", {value});
  net.Output(value);
  net.Run();
  EXPECT_EQ(net.Operators(), Ops(3, "Elementwise"));

  ChainNet wide;
  value = wide.x;
  for (int i = 0; i < 9; ++i) value = wide.Op("Add", {value, wide.Hidden("other")});
  wide.Output(value);
  wide.Run();
  EXPECT_EQ(wide.Operators(), (Ops{"Elementwise", "Elementwise"}));
  EXPECT_EQ(wide.node(0).inputs.size(), 8u);
}

TEST(ChainsPassTest, WhoAsksForDimensionsIsToldThoseBefore) {
  ChainNet net;
  const int a = net.Op("Exp", {net.x});
  const int shape = net.OnHost("Shape", 15, {a}, 1);
  net.Output(net.Open("Reshape", 14, {net.Op("Relu", {net.Op("Add", {a, net.bias})}), shape}, 3));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"Shape", "Elementwise", "Reshape"}));
  EXPECT_EQ(net.node(0).inputs, std::vector<int>{net.x});
}

TEST(ChainsPassTest, OtherPassesComeFirst) {
  ChainNet net;
  const int y = net.Op("MatMul", {net.x, net.Constant("w", {kHidden, kHidden})});
  net.Output(net.Op("Sqrt", {net.Op("Exp", {net.Op("Relu", {net.Op("Add", {y, net.bias})})})}));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"MatMul", "Elementwise"}));
  ChainNet skipped;
  skipped.Output(skipped.Op("Sqrt", {skipped.Op("Exp", {skipped.x})}));
  Settings settings;
  settings.fusion_skip.Add(Fusion::kChains);
  skipped.Run(settings);
  EXPECT_EQ(skipped.Operators(), (Ops{"Exp", "Sqrt"}));
}

}  // namespace
}  // namespace cudaep::graph
