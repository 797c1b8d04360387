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

}  // namespace
}  // namespace cudaep::graph
