// Functions of codes as tables.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/registry.h"
#include "qdq_net.h"

namespace cudaep::graph {
namespace {

constexpr double kScale = 0.05;
constexpr int kZero = 100;

struct TableNet : QdqNet {
  TableNet() { codes = Input("codes", kHiddenDims), graph.value(codes).type = DataType::kUint8; }

  int Reals() { return Dequantize(codes, kScale, kZero); }
  void Run() { QdqNet::Run({}); }
  std::vector<int> TableOf(size_t index) const {
    const ops::TensorView& table = graph.value(node(index).inputs[1]).constant;
    std::vector<int> all;
    for (size_t i = 0; i < 256; ++i) {
      all.push_back(table.type == DataType::kInt8 ? table.host<int8_t>()[i] : table.host<uint8_t>()[i]);
    }
    return all;
  }
  Ops Functions(size_t index) const {
    return std::get<std::vector<std::string>>(node(index).attributes.at("functions"));
  }
  int codes = -1;
};

float Real(int code) { return static_cast<float>(code - kZero) * static_cast<float>(kScale); }

int Code(float real, float scale, int zero, int lowest) {
  return std::min(std::max(static_cast<int>(std::nearbyint(real / scale)) + zero, lowest), lowest + 255);
}

TEST(CodeTablesTest, FunctionBetweenCodes) {
  TableNet net;
  const int y = net.Quantize(net.Op("Tanh", {net.Reals()}), 0.01, -3, DataType::kInt8);
  net.Output(y);
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"Elementwise"});
  EXPECT_EQ(net.Functions(0), Ops{"LookUp"});
  EXPECT_EQ(net.node(0).inputs[0], net.codes);
  EXPECT_EQ(net.node(0).outputs, std::vector<int>{y});
  EXPECT_EQ(std::get<std::vector<float>>(net.node(0).attributes.at("numbers"))[0], 0.0f);
  for (int code = 0; code < 256; ++code) {
    const int wanted = Code(std::tanh(Real(code)), 0.01f, -3, -128);
    EXPECT_EQ(net.TableOf(0)[static_cast<size_t>(code)], wanted) << code;
  }
}

// x (1 + erf(x / sqrt(2))) / 2, each result of which has codes.
TEST(CodeTablesTest, BranchesAndCodesInBetween) {
  TableNet net;
  const int x = net.Reals(), other = net.Reals();
  const int erf = net.Through(net.Op("Erf", {net.Op("Div", {x, net.Scalar(1.4142135f)})}), 0.01, 128);
  const int sum = net.Through(net.Op("Add", {erf, net.Scalar(1)}), 0.01, 0);
  const int half = net.Op("Mul", {net.Op("Mul", {other, sum}), net.Scalar(0.5f)});
  net.Output(net.Quantize(half, 0.02, 7));
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"Elementwise"});
  ASSERT_EQ(net.Functions(0), Ops{"LookUp"});
  const auto through = [](float real, int zero) {
    return static_cast<float>(Code(real, 0.01f, zero, 0) - zero) * 0.01f;
  };
  for (int code = 0; code < 256; ++code) {
    const float erf_of = through(static_cast<float>(std::erf(double{Real(code) / 1.4142135f})), 128);
    const float product = Real(code) * through(erf_of + 1, 0) * 0.5f;
    EXPECT_EQ(net.TableOf(0)[static_cast<size_t>(code)], Code(product, 0.02f, 7, 0)) << code;
  }
}

TEST(CodeTablesTest, JoinsChains) {
  TableNet net;
  const int sum = net.Through(net.Op("Add", {net.Reals(), net.x}));
  net.Output(net.Quantize(net.Op("Sigmoid", {sum}), 0.004, 0));
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"Elementwise"});
  EXPECT_EQ(net.Functions(0), (Ops{"Affine", "Affine", "Add", "Quantize", "Affine", "LookUp"}));
}

TEST(CodeTablesTest, WhatIsReadAsNumbersStays) {
  TableNet net;
  const int soft = net.Through(net.Op("Tanh", {net.Reals()}), 0.01, 3);
  net.Output(net.Op("Softmax", {soft}));
  net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"Elementwise", "Softmax"}));
  EXPECT_EQ(net.Functions(0), (Ops{"LookUp", "Affine", "Affine"}));
}

TEST(CodeTablesTest, NoTables) {
  // Of two values, of a vector, of numbers that have no codes; or where a table takes no less time.
  const auto functions = [](auto&& build) {
    TableNet net;
    net.Output(net.Quantize(build(net), 0.5, 3));
    net.Run();
    EXPECT_EQ(net.Operators(), Ops{"Elementwise"});
    return net.Functions(0);
  };
  const auto has_table = [&](auto&& build) { return std::ranges::count(functions(build), "LookUp") > 0; };
  EXPECT_FALSE(has_table([](TableNet& net) { return net.Op("Add", {net.Reals(), net.Through(net.x)}); }));
  EXPECT_FALSE(has_table([](TableNet& net) { return net.Op("Mul", {net.Reals(), net.Constant("b", {kHidden})}); }));
  EXPECT_FALSE(has_table([](TableNet& net) { return net.Op("Relu", {net.x}); }));
  EXPECT_FALSE(has_table([](TableNet& net) { return net.Op("Floor", {net.Reals()}); }));
  EXPECT_FALSE(has_table([](TableNet& net) { return net.Reals(); }));
}

}  // namespace
}  // namespace cudaep::graph
