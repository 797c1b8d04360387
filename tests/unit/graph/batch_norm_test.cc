// Batch normalisations of constants, as terms of chains.
#include "graph/pass/batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/ir/constants.h"
#include "graph_builder.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using ir::Dim;
using Numbers = std::vector<double>;

const std::vector<Dim> kImage = {{kUnknownDim, "n"}, {2}, {4}, {4}};

struct NormNet : Builder {
  explicit NormNet(DataType element = DataType::kFloat16, std::vector<Dim> image = kImage)
      : Builder(element), dims(std::move(image)), x(Input("x", dims)) {}

  int Numbered(const char* name, const Numbers& numbers) {
    return graph.AddConstant(name, ir::MakeNumbers(type, Shape{static_cast<int64_t>(numbers.size())}, numbers));
  }
  int Norm(int value, const Numbers& scale = {1, 2}) {
    return Add("BatchNormalization", 15,
               {value, Numbered("scale", scale), Numbered("bias", {1, 2}), Numbered("mean", {4, -8}),
                Numbered("variance", {4, 16})},
               dims, {{"epsilon", 0.0f}});
  }
  int Relu(int value) { return Add("Relu", 14, {value}, dims); }
  std::vector<FusionNote> Run(const Settings& settings = {}) { return RunPasses(graph, settings); }
  std::vector<std::string> Functions() const {
    return std::get<std::vector<std::string>>(graph.nodes[0].attributes.at("functions"));
  }
  const ir::Value& Operand(size_t input) const { return graph.value(graph.nodes[0].inputs[input]); }

  std::vector<Dim> dims;
  int x;
};

TEST(BatchNormTest, TakesAnActivationAlong) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBFloat16}) {
    NormNet net(type);
    net.Output(net.Relu(net.Norm(net.x)));
    const auto notes = net.Run();
    ASSERT_EQ(net.Operators(), Ops{"Elementwise"});
    EXPECT_EQ(net.graph.nodes[0].domain, ops::kFusedDomain);
    EXPECT_EQ(net.Functions(), (Ops{"Sub", "Mul", "Add", "Relu"}));
    const Numbers wanted[] = {{4, -8}, {0.5, 0.5}, {1, 2}};
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(*ir::NumbersOf(net.graph, net.graph.nodes[0].inputs[i + 1]), wanted[i]);
      EXPECT_EQ(net.Operand(i + 1).type, DataType::kFloat);
      EXPECT_EQ(Shape(net.Operand(i + 1).constant.dims()), (Shape{2, 1, 1}));
    }
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_EQ(notes[0].sources, (Ops{"BatchNormalization", "Relu"}));
  }
}

TEST(BatchNormTest, OfChannelsThatAreLast) {
  NormNet net;
  net.dims = {{kUnknownDim, "n"}, {4}, {4}, {2}};
  net.graph.value(net.x).dims = net.dims;
  const int y = net.Norm(net.x);
  net.graph.nodes.back().domain = ops::kNhwcDomain;
  net.Output(net.Relu(y));
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"Elementwise"});
  EXPECT_EQ(Shape(net.Operand(1).constant.dims()), Shape{2});
}

TEST(BatchNormTest, OfColumnsAndOfVolumes) {
  for (const std::vector<Dim>& dims : {std::vector<Dim>{{kUnknownDim, "n"}, {2}},
                                       std::vector<Dim>{{kUnknownDim, "n"}, {2}, {kUnknownDim, "d"}, {4}, {4}}}) {
    NormNet net(DataType::kFloat, dims);
    net.Output(net.Relu(net.Norm(net.x)));
    net.Run();
    ASSERT_EQ(net.Operators(), Ops{"Elementwise"});
    EXPECT_EQ(net.Operand(1).constant.rank, static_cast<int>(dims.size()) - 1);
  }
}

TEST(BatchNormTest, BranchesAndTheirSum) {
  NormNet net;
  const int branch = net.Norm(net.x);
  net.Output(net.Relu(net.Add("Add", 14, {net.Norm(net.Relu(net.x)), branch}, kImage)));
  net.Run();
  EXPECT_EQ(net.Operators(), Ops{"Elementwise"});
}

TEST(BatchNormTest, AloneItStays) {
  NormNet net;
  const int soft = net.Add("Softmax", 13, {net.Norm(net.x)}, kImage, {{"axis", int64_t{1}}});
  net.Output(net.Add("Softmax", 13, {net.Relu(soft)}, kImage, {{"axis", int64_t{1}}}));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"BatchNormalization", "Softmax", "Relu", "Softmax"}));
}

TEST(BatchNormTest, WhatIsNoChainsStays) {
  const Ops both{"BatchNormalization", "Relu"};
  const auto left = [](auto&& change, DataType type = DataType::kFloat) {
    NormNet net(type);
    const int y = net.Norm(net.x);
    change(net, net.graph.nodes.back());
    net.Output(net.Relu(y));
    net.Run();
    return net.Operators();
  };
  const auto nothing = [](NormNet&, ir::Node&) {};
  EXPECT_EQ(left(nothing), Ops{"Elementwise"});
  EXPECT_EQ(left(nothing, DataType::kDouble), both);
  EXPECT_EQ(left([](NormNet&, ir::Node& node) { node.attributes["training_mode"] = int64_t{1}; }), both);
  EXPECT_EQ(left([](NormNet&, ir::Node& node) { node.since_version = 7, node.attributes["spatial"] = int64_t{0}; }),
            both);
  EXPECT_EQ(left([](NormNet& net, ir::Node& node) { node.outputs.push_back(net.Value("mean", {{2}})); }), both);
  for (size_t i = 1; i < 5; ++i) {
    EXPECT_EQ(left([&](NormNet& net, ir::Node& node) { node.inputs[i] = net.Input("open", {{2}}); }), both) << i;
    EXPECT_EQ(left([&](NormNet& net, ir::Node& node) { node.inputs[i] = net.Numbered("three", {1, 2, 3}); }), both);
  }
  // Of three channels, of numbers that float32 does not have, of dimensions that are not known to stay.
  EXPECT_EQ(left([](NormNet& net, ir::Node&) { (*net.graph.value(net.x).dims)[1] = {kUnknownDim, "c"}; }), both);
  EXPECT_EQ(left([](NormNet& net, ir::Node&) {
              for (ir::Value& value : net.graph.values) {
                if (!value.is_constant()) (*value.dims)[1] = {3};
              }
              net.dims[1] = {3};
            }),
            both);
  EXPECT_EQ(left([](NormNet& net, ir::Node& node) { node.inputs[4] = net.Numbered("variance", {0, 1}); }), both);
  EXPECT_EQ(left([](NormNet& net, ir::Node& node) {
              for (const int value : {net.x, node.outputs[0]}) net.graph.value(value).dims.reset();
            }),
            both);
}

TEST(BatchNormTest, WithoutChainsItStays) {
  NormNet net;
  net.Output(net.Relu(net.Norm(net.x)));
  net.Run(WithoutChains());
  EXPECT_EQ(net.Operators(), (Ops{"BatchNormalization", "Relu"}));
}

}  // namespace
}  // namespace cudaep::graph
