// Arithmetic on sizes that the model states.
#include <gtest/gtest.h>

#include <cmath>

#include "core/data_type_traits.h"
#include "transformer_net.h"

namespace cudaep::graph {
namespace {

// y = x * 1 / sqrt(a size of x), x: [batch, rows, 8], as exporters spell out attention's scale.
struct ScaledNet : Net {
  explicit ScaledNet(DataType element, int64_t axis) : Net(element) {
    x = Hidden("x");
    const int shape = OnHost("Shape", 15, {x}, 1);
    const int size = OnHost("Slice", 13, {shape, Ints("i", {axis}), Ints("i", {axis + 1})}, 1);
    const int number = Open("Cast", 13, {size}, 1, {{"to", int64_t{element == DataType::kFloat ? 1 : 10}}});
    const int one = element == DataType::kFloat ? Vector("one", element, std::vector<float>{1})
                                                : Vector("one", element, std::vector<Half>{Store<Half>(1.0f)});
    root = Open("Sqrt", 13, {number}, 1);
    scale = Open("Div", 14, {one, root}, 1);
    Output(Op("Mul", {x, scale}));
  }
  int x, root, scale;
};

TEST(Fold, SizesThatAreStatedComeToConstants) {
  ScaledNet net(DataType::kFloat, 2);
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"Mul"});
  const ir::Value& scale = net.graph.value(net.node(0).inputs[1]);
  ASSERT_TRUE(scale.is_constant());
  EXPECT_EQ(scale.type, DataType::kFloat);
  EXPECT_EQ(scale.constant.host<float>()[0], 1.0f / std::sqrt(8.0f));
}

// Kernels round after each operator.
TEST(Fold, NarrowFloatsAreRoundedAfterEachOperator) {
  ScaledNet net(DataType::kFloat16, 2);
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"Mul"});
  const ir::Value& scale = net.graph.value(net.node(0).inputs[1]);
  ASSERT_EQ(scale.type, DataType::kFloat16);
  const Half root = Store<Half>(std::sqrt(8.0f));
  EXPECT_EQ(Load(scale.constant.host<Half>()[0]), Load(Store<Half>(1.0f / Load(root))));
}

TEST(Fold, SizesThatAreNotStatedStay) {
  ScaledNet net(DataType::kFloat, 1);
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"Shape", "Slice", "Cast", "Sqrt", "Div", "Mul"}));
}

TEST(Fold, WhatGivesItsInputGoes) {
  struct Case {
    const char* op;
    ops::Attributes attributes = {};
  };
  const Case cases[] = {{"Concat", {{"axis", int64_t{-2}}}}, {"Sum"}, {"Mean"}, {"Max"}, {"Min"}, {"Identity"},
                        {"Cast", {{"to", int64_t{1}}}}};
  for (const auto& [op, attributes] : cases) {
    Net net;
    const int x = net.Hidden("x");
    const int y = net.Open(op, 13, {x}, 3, attributes);
    net.Output(net.Op("Relu", {y}));
    net.Run();
    ASSERT_EQ(net.Operators(), Ops{"Relu"}) << op;
    EXPECT_EQ(net.node(0).inputs, std::vector<int>{x}) << op;
  }
  for (const bool divides : {false, true}) {
    Net net(DataType::kBFloat16);
    const int x = net.Hidden("x");
    net.Output(net.Op(
        "Relu", {net.Op(divides ? "Div" : "Mul",
                        {x, net.Vector("one", DataType::kBFloat16, std::vector<BFloat16>{Store<BFloat16>(1.0f)})})}));
    net.Output(net.Op("Neg", {net.Op("Mul", {net.Scalar(1), x})}));
    net.Run();
    ASSERT_EQ(net.Operators(), (Ops{"Relu", "Neg"}));
    for (const size_t n : {0, 1}) EXPECT_EQ(net.node(n).inputs, std::vector<int>{x});
  }
  // A result of the region is made, and others read what it is made of.
  Net result;
  const int x = result.Hidden("x");
  const int y = result.Open("Concat", 13, {x}, 3, {{"axis", int64_t{1}}});
  result.Output(y);
  result.Output(result.Op("Relu", {y}));
  result.Run();
  ASSERT_EQ(result.Operators(), (Ops{"Concat", "Relu"}));
  EXPECT_EQ(result.node(1).inputs, std::vector<int>{x});
  // What is stated of the result alone holds for what it was made of.
  Net stated;
  const int open = stated.Open("Relu", 14, {stated.Hidden("x")}, 3);
  const int copy = stated.Add("Concat", 13, {open}, {{4}, {2}, {8}}, {{"axis", int64_t{1}}});
  stated.Output(stated.Op("Neg", {copy}));
  stated.Run();
  EXPECT_EQ((*stated.graph.value(open).dims)[0].size, 4);
  // Another type, and two tensors.
  Net other;
  const int z = other.Hidden("z");
  const int cast = other.Open("Cast", 13, {z}, 3, {{"to", int64_t{11}}});
  other.graph.value(cast).type = DataType::kDouble;
  other.Output(other.Op("Relu", {cast}));
  other.Output(other.Op("Sum", {z, z}));
  const int one = other.Scalar(1);
  other.Output(other.Op("Div", {one, z}));
  other.Output(other.Op("Mul", {z, other.Scalar(2)}));
  other.Output(other.Open("Mul", 13, {z, other.Vector("ones", DataType::kFloat, std::vector<float>(8, 1.0f))}, 3));
  other.Output(other.Open("Mul", 13,
                          {other.Open("ReduceMax", 13, {z}, 0, {{"keepdims", int64_t{0}}}),
                           other.Vector("one", DataType::kFloat, std::vector<float>{1})},
                          1));
  other.Run();
  EXPECT_EQ(other.Operators(), (Ops{"Cast", "Relu", "Sum", "Div", "Mul", "Mul", "ReduceMax", "Mul"}));
}

TEST(Fold, WhatIsCopiedLeavesItself) {
  Net net;
  const int y = net.Open("Relu", 14, {net.Hidden("x")}, 3);
  const int copy = net.Open("Cast", 13, {y}, 3, {{"to", int64_t{1}}});
  net.Output(copy);
  net.Output(net.Op("Neg", {copy}));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"Relu", "Neg"}));
  EXPECT_EQ(net.graph.outputs[0], y);
  EXPECT_EQ(net.graph.value(y).output, 0);
  EXPECT_EQ(net.graph.value(copy).output, -1);
  // Two results are two values.
  Net both;
  const int z = both.Open("Relu", 14, {both.Hidden("x")}, 3);
  for (int i = 0; i < 2; ++i) both.Output(both.Open("Identity", 14, {z}, 3));
  both.Run();
  EXPECT_EQ(both.Operators(), (Ops{"Relu", "Identity"}));
  EXPECT_EQ(both.graph.outputs[0], z);
  // Neither a constant nor what the host makes is a result.
  Net other;
  const int shape = other.OnHost("Shape", 15, {other.Hidden("x")}, 1);
  for (const int value : {shape, other.Vector("one", DataType::kFloat, std::vector<float>{1})}) {
    const int copy_of = other.Open("Identity", 14, {value}, 1);
    other.graph.value(copy_of).type = other.graph.value(value).type;
    other.Output(copy_of);
  }
  other.Run();
  EXPECT_EQ(other.Operators(), (Ops{"Shape", "Identity", "Identity"}));
}

TEST(Fold, ResultsOfTheRegionStay) {
  ScaledNet net(DataType::kFloat, 2);
  net.Output(net.root);
  net.Run();
  const Ops ops = net.Operators();
  EXPECT_EQ(ops.back(), "Mul");
  EXPECT_NE(std::ranges::find(ops, "Sqrt"), ops.end());
}

// Said by name when the region runs.
TEST(Fold, WhatCannotBeComputedStays) {
  Net net;
  const int x = net.Hidden("x");
  const int none = net.OnHost("Div", 14, {net.Ints("a", {3}), net.Ints("b", {0})}, 1);
  net.Output(net.Op("Reshape", {x, none}));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"Div", "Reshape"}));
}

// A bias as BART's exports have it.
TEST(Fold, RowsOfOneAreVectors) {
  Net net;
  const int x = net.Hidden("x"), bias = net.Constant("bias", {1, 1, 8});
  net.Output(net.Op("Add", {bias, net.Open("MatMul", 13, {x, net.Constant("w", {8, 8})}, 3)}));
  net.Output(net.Op("Mul", {net.Op("Relu", {x}), bias}));
  net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"MatMul", "Relu", "Mul"}));
  const int vector = net.node(0).inputs[2];
  EXPECT_EQ(net.graph.value(vector).constant.dims().size(), 1u);
  EXPECT_EQ(net.graph.value(vector).constant.data, net.graph.value(bias).constant.data);
  EXPECT_EQ(net.node(2).inputs[1], vector);
  // What gives its result dimensions, and a column.
  Net other;
  const int z = other.Input("z", {{kUnknownDim, "rows"}, {8}});
  other.Output(other.Open("Add", 13, {z, other.Constant("rows", {1, 1, 8})}, 3));
  other.Output(other.Open("Add", 13, {z, other.Constant("column", {8, 1})}, 2));
  other.Run();
  for (const size_t n : {0, 1}) EXPECT_GT(other.graph.value(other.node(n).inputs[1]).constant.rank, 1);
}

}  // namespace
}  // namespace cudaep::graph
