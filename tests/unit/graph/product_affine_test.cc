// What products take over into their weights, and what they leave.
#include <gtest/gtest.h>

#include "graph/ir/constants.h"
#include "graph/pass/pass.h"
#include "graph_builder.h"

namespace cudaep::graph {
namespace {

using ir::Dim;
using Numbers = std::vector<double>;

const std::vector<Dim> kTokens = {{kUnknownDim, "n"}, {5}, {2}}, kRows = {{kUnknownDim, "rows"}, {2}};

struct ProductNet : Builder {
  explicit ProductNet(DataType element = DataType::kFloat16, Numbers weights = {1, 2, 3, -4, 5, 6}) : Builder(element) {
    x = Input("x", {{kUnknownDim, "n"}, {5}, {3}});
    w = Numbered("w", {3, 2}, weights);
    y = Add("MatMul", 13, {x, w}, kTokens);
  }
  int Numbered(const char* name, Shape dims, const Numbers& numbers) {
    return graph.AddConstant(name, ir::MakeNumbers(type, dims, numbers));
  }
  int Scaled(int value, const Numbers& scale = {2, -1}) {
    return Add("Mul", 14, {Numbered("scale", {2}, scale), value}, kTokens);
  }
  int Shifted(int value) { return Add("Add", 14, {value, Numbered("shift", {1, 2}, {10, 20})}, kTokens); }
  int Flat(int value, std::vector<Dim> dims = kRows) {
    return Add("Flatten", 13, {value}, dims, {{"axis", int64_t{2}}});
  }
  int Norm(int value) {
    return Add("BatchNormalization", 15,
               {value, Numbered("scale", {2}, {1, 2}), Numbered("bias", {2}, {1, 2}), Numbered("mean", {2}, {4, -8}),
                Numbered("variance", {2}, {4, 16})},
               kRows, {{"epsilon", 0.0f}});
  }
  int Back(int value) { return Add("Reshape", 14, {value, Ints("dims", {-1, 5, 2})}, kTokens); }
  std::vector<FusionNote> Run() {
    Settings settings;
    for (const Fusion fusion : {Fusion::kProductEpilogue, Fusion::kViews, Fusion::kChains, Fusion::kShortProducts}) {
      settings.fusion_skip.Add(fusion);
    }
    return RunPasses(graph, settings);
  }
  Numbers Of(size_t node, size_t input) const { return *ir::NumbersOf(graph, graph.nodes[node].inputs[input]); }

  int x, w, y;
};

TEST(ProductAffineTest, ScalesOfColumnsGoIntoWeightsAndBias) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBFloat16, DataType::kDouble}) {
    ProductNet net(type);
    const int y = net.Scaled(net.Shifted(net.y));
    net.Output(y);
    const auto notes = net.Run();
    ASSERT_EQ(net.Operators(), (Ops{"MatMul", "Add"}));
    EXPECT_EQ(net.Of(0, 1), (Numbers{2, -2, 6, 4, 10, -6}));
    EXPECT_EQ(net.Of(1, 1), (Numbers{20, -20}));
    EXPECT_EQ(net.graph.nodes[0].inputs[0], net.x);
    EXPECT_EQ(net.graph.nodes[1].outputs, std::vector<int>{y});
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_EQ(notes[0].sources, (Ops{"MatMul", "Add", "Mul"}));
  }
}

TEST(ProductAffineTest, ANormOfRowsBehindAReshape) {
  ProductNet net;
  const int y = net.Back(net.Norm(net.Flat(net.y)));
  net.Output(y);
  net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"MatMul", "Add", "Flatten", "Reshape"}));
  EXPECT_EQ(net.Of(0, 1), (Numbers{0.5, 1, 1.5, -2, 2.5, 3}));
  EXPECT_EQ(net.Of(1, 1), (Numbers{-1, 6}));  // -4 / 2 + 1, 8 / 2 + 2
  EXPECT_EQ(net.graph.nodes[1].outputs[0], net.y);
  EXPECT_EQ(net.graph.nodes[3].inputs[0], net.graph.nodes[2].outputs[0]);
}

TEST(ProductAffineTest, WhatStandsBeforeTheReshapeAndBehindItIsBypassed) {
  ProductNet net;
  net.Output(net.Back(net.Norm(net.Flat(net.Shifted(net.y)))));
  const auto notes = net.Run();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].sources, (Ops{"Add", "BatchNormalization", "MatMul"}));
  ASSERT_EQ(net.Operators(), (Ops{"MatMul", "Add", "Flatten", "Reshape"}));
  EXPECT_EQ(net.Of(1, 1), (Numbers{4, 16}));  // (10 - 4) / 2 + 1, (20 + 8) / 2 + 2
  EXPECT_EQ(net.graph.nodes[2].inputs[0], net.graph.nodes[1].outputs[0]);
}

TEST(ProductAffineTest, GemmHasItsOwnBias) {
  for (const bool transposed : {false, true}) {
    Builder net(DataType::kFloat);
    const auto numbered = [&](Shape dims, const Numbers& numbers) {
      return net.graph.AddConstant("c", ir::MakeNumbers(net.type, dims, numbers));
    };
    const int w = transposed ? numbered({2, 3}, {1, 3, 5, 2, -4, 6}) : numbered({3, 2}, {1, 2, 3, -4, 5, 6});
    const int y = net.Add("Gemm", 13, {net.Input("x", {{kUnknownDim, "n"}, {3}}), w, numbered({2}, {10, 20})}, kRows,
                          {{"transB", int64_t{transposed}}});
    net.Output(net.Add("Mul", 14, {y, numbered({2}, {2, -1})}, kRows));
    Settings settings;
    settings.fusion_skip.Add(Fusion::kShortProducts);
    RunPasses(net.graph, settings);
    ASSERT_EQ(net.Operators(), Ops{"Gemm"});
    const auto of = [&](size_t input) { return *ir::NumbersOf(net.graph, net.graph.nodes[0].inputs[input]); };
    EXPECT_EQ(of(1), transposed ? (Numbers{2, 6, 10, -2, 4, -6}) : (Numbers{2, -2, 6, 4, 10, -6}));
    EXPECT_EQ(of(2), (Numbers{20, -20}));
  }
}

TEST(ProductAffineTest, ColumnsAreTurnedToChannels) {
  const auto left = [](const Shape& dims, bool back) {
    ProductNet net;
    const std::vector<Dim> turned = {{kUnknownDim, "n"}, {2}, {5}};
    int y = net.Add("Transpose", 13, {net.y}, turned, {{"perm", std::vector<int64_t>{0, 2, 1}}});
    if (back) y = net.Add("Transpose", 13, {y}, kTokens, {{"perm", std::vector<int64_t>{0, 2, 1}}});
    y = net.Add("Mul", 14, {y, net.Numbered("scale", dims, {2, -1})}, back ? kTokens : turned);
    net.Output(net.Add("Relu", 14, {y}, back ? kTokens : turned));
    net.Run();
    return net.Operators();
  };
  EXPECT_EQ(left({2, 1}, false), (Ops{"MatMul", "Add", "Transpose", "Relu"}));
  EXPECT_EQ(left({1, 2, 1}, false), (Ops{"MatMul", "Add", "Transpose", "Relu"}));
  EXPECT_EQ(left({2}, true), (Ops{"MatMul", "Add", "Transpose", "Transpose", "Relu"}));
  EXPECT_EQ(left({2, 1}, true), (Ops{"MatMul", "Transpose", "Transpose", "Mul", "Relu"}));
}

// The sum behind the last scale is a bias, which products take by themselves.
TEST(ProductAffineTest, SumsAloneAndOneFactorForAllStay) {
  ProductNet sums;
  sums.Output(sums.Shifted(sums.y));
  sums.Run();
  EXPECT_EQ(sums.Operators(), (Ops{"MatMul", "Add"}));
  EXPECT_EQ(sums.graph.nodes[0].inputs[1], sums.w);
  for (const Shape& dims : {Shape{}, Shape{1}}) {
    ProductNet one;
    one.Output(one.Add("Mul", 14, {one.y, one.Numbered("half", dims, {0.5})}, kTokens));
    one.Run();
    EXPECT_EQ(one.Operators(), (Ops{"MatMul", "Mul"}));
  }
}

TEST(ProductAffineTest, WhatIsNoScaleOfColumnsStays) {
  const auto left = [](auto&& build, DataType type = DataType::kFloat16) {
    ProductNet net(type);
    net.Output(build(net));
    net.Run();
    return net.Operators();
  };
  const Ops both{"MatMul", "Mul"};
  EXPECT_EQ(left([](ProductNet& net) { return net.Add("Mul", 14, {net.y, net.Input("s", {{2}})}, kTokens); }), both);
  EXPECT_EQ(left([](ProductNet& net) {
              return net.Add("Mul", 14, {net.y, net.Numbered("rows", {5, 1}, {1, 2, 3, 4, 5})}, kTokens);
            }),
            both);
  EXPECT_EQ(
      left([](ProductNet& net) {
        return net.Add("Mul", 14, {net.y, net.Numbered("s", {1, 1, 1, 2}, {1, 2})}, {{1}, {kUnknownDim}, {5}, {2}});
      }),
      both);
  EXPECT_EQ(left([](ProductNet& net) { return net.Add("Mul", 14, {net.y, net.y}, kTokens); }), both);
  // A norm's channels are those of the second dimension.
  EXPECT_EQ(left([](ProductNet& net) {
              const int y = net.Norm(net.y);
              net.graph.value(y).dims = kTokens;
              return y;
            }),
            (Ops{"MatMul", "BatchNormalization"}));
  // Other columns than before.
  EXPECT_EQ(left([](ProductNet& net) {
              const std::vector<Dim> pairs = {{kUnknownDim, "n"}, {2}, {5}};
              return net.Norm(net.Flat(net.Add("Reshape", 14, {net.y, net.Ints("dims", {-1, 2, 5})}, pairs)));
            }),
            (Ops{"MatMul", "Reshape", "Flatten", "BatchNormalization"}));
}

TEST(ProductAffineTest, WhatOthersReadOrLeavesStays) {
  ProductNet leaves;
  leaves.Output(leaves.y);
  leaves.Output(leaves.Scaled(leaves.y));
  leaves.Run();
  EXPECT_EQ(leaves.Operators(), (Ops{"MatMul", "Mul"}));
  ProductNet shared;
  shared.Output(shared.Scaled(shared.y));
  shared.Output(shared.Add("Softmax", 13, {shared.y}, kTokens));
  shared.Run();
  EXPECT_EQ(shared.Operators(), (Ops{"MatMul", "Mul", "Softmax"}));
  ProductNet norm;  // that leaves, behind a reshape
  norm.Output(norm.Norm(norm.Flat(norm.y)));
  norm.Run();
  EXPECT_EQ(norm.Operators(), (Ops{"MatMul", "Flatten", "BatchNormalization"}));
}

TEST(ProductAffineTest, WhoAsksForDimensionsReadsTheProduct) {
  ProductNet net;
  const int asked = net.Add("Shape", 13, {net.y}, {{3}});
  net.graph.value(asked).type = DataType::kInt64, net.graph.nodes.back().on_host = true;
  net.Output(asked);
  net.Output(net.Add("Relu", 14, {net.Scaled(net.y)}, kTokens));
  net.Run();
  Ops ops = net.Operators();
  EXPECT_EQ(std::ranges::count(ops, "MatMul"), 1);
  EXPECT_EQ(std::ranges::count(ops, "Mul"), 0);
}

TEST(ProductAffineTest, WeightsOfARunAndOfOthersStay) {
  ProductNet open;
  open.graph.nodes[0].inputs[1] = open.Input("w", {{3}, {2}});
  open.Output(open.Scaled(open.y));
  open.Run();
  EXPECT_EQ(open.Operators(), (Ops{"MatMul", "Mul"}));
  ProductNet shared;
  shared.Output(shared.Scaled(shared.y));
  shared.Output(shared.Add("MatMul", 13, {shared.Input("z", {{7}, {3}}), shared.w}, {{7}, {2}}));
  shared.Run();
  EXPECT_EQ(shared.Operators(), (Ops{"MatMul", "Mul", "MatMul"}));
}

TEST(ProductAffineTest, WeightsThatWouldLeaveTheirRangeStay) {
  for (const double scale : {30000.0, 0x1p-20, 0.0}) {
    ProductNet net;
    net.Output(net.Scaled(net.y, {1, scale}));
    const auto notes = net.Run();
    EXPECT_EQ(net.Operators(), (Ops{"MatMul", "Mul"})) << scale;
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_EQ(notes[0].missed, "a column's weights would vanish or leave their type's range");
  }
}

}  // namespace
}  // namespace cudaep::graph
