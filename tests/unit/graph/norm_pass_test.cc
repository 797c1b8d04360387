// Normalisations that are spelled out, and sums before them.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/ir/constants.h"
#include "ops/registry.h"
#include "transformer_net.h"

namespace cudaep::graph {
namespace {

struct NormNet : Net {
  using Net::Net;
  enum class Root { kDiv, kReciprocal, kOneOver, kPow };
  static constexpr float kNoEpsilon = -1;

  int Mean(int x, std::vector<int64_t> axes = {-1}) { return Open("ReduceMean", 13, {x}, 3, {{"axes", axes}}); }
  int Square(int d, bool power) { return power ? Op("Pow", {d, Scalar(2)}) : Op("Mul", {d, d}); }
  int Over(int d, int variance, Root root, float epsilon = 1e-5f) {
    const int sum = epsilon == kNoEpsilon ? variance : Op("Add", {variance, Scalar(epsilon)});
    if (root == Root::kPow) return Op("Mul", {Op("Pow", {sum, Scalar(-0.5f)}), d});
    const int sqrt = Op("Sqrt", {sum});
    if (root == Root::kDiv) return Op("Div", {d, sqrt});
    return Op("Mul", {d, root == Root::kReciprocal ? Op("Reciprocal", {sqrt}) : Op("Div", {Scalar(1), sqrt})});
  }
  int Layer(int x, Root root = Root::kDiv, bool power = true, std::vector<int64_t> axes = {-1}) {
    const int d = Op("Sub", {x, Mean(x, axes)});
    return Over(d, Mean(Square(d, power), axes), root);
  }
  int Epsilon(const Shape& dims) {
    const int value = Scalar(1e-5f);
    ops::HostTensor tensor{.type = DataType::kFloat, .dims = dims, .data = {}};
    const auto* const bytes = static_cast<const std::byte*>(graph.value(value).constant.data);
    tensor.data.assign(bytes, bytes + sizeof(float));
    return graph.AddConstant("epsilon", std::move(tensor));
  }
  int Cast(int x, DataType to) {
    const int y = Op("Cast", {x});
    graph.value(y).type = to;
    graph.nodes.back().attributes = {{"to", static_cast<int64_t>(to)}};
    return y;
  }
};
using Root = NormNet::Root;

TEST(NormPassTest, LayerNormalizationInItsSpellings) {
  for (const Root root : {Root::kDiv, Root::kReciprocal, Root::kOneOver, Root::kPow}) {
    for (const bool power : {false, true}) {
      NormNet net;
      const int x = net.Hidden("x"), scale = net.Constant("scale", {kHidden}), bias = net.Constant("bias", {kHidden});
      net.Output(net.Op("Add", {bias, net.Op("Mul", {net.Layer(x, root, power, {power ? -1 : 2}), scale})}));
      net.Run();
      ASSERT_EQ(net.Operators(), Ops{"LayerNormalization"});
      EXPECT_EQ(net.node(0).inputs, (std::vector<int>{x, scale, bias}));
      EXPECT_EQ(net.node(0).outputs, net.graph.outputs);
      EXPECT_FLOAT_EQ(net.FloatOf(0, "epsilon"), 1e-5f);
    }
  }
}

TEST(NormPassTest, ConstantsOfMoreDimensionsGiveTheirsToTheResult) {
  for (const Shape& dims : {Shape{1}, Shape{1, 1, 1}, Shape{1, 1, 1, 1}}) {
    NormNet net;
    const int x = net.Hidden("x"), d = net.Op("Sub", {x, net.Mean(x)});
    const int sum = net.Op("Add", {net.Mean(net.Square(d, false)), net.Epsilon(dims)});
    net.Output(net.Op("Mul", {net.Op("Div", {d, net.Op("Sqrt", {sum})}), net.Constant("scale", {kHidden})}));
    for (ir::Value& value : net.graph.values) {
      if (!value.is_constant() && value.input < 0) value.dims.reset();  // they are inferred
    }
    net.Run();
    EXPECT_EQ(std::ranges::count(net.Operators(), "LayerNormalization"), dims.rank() < 4 ? 1 : 0) << dims.rank();
  }
}

TEST(NormPassTest, WithoutBiasAndOfRootMeanSquare) {
  NormNet net;
  const int x = net.Hidden("x"), scale = net.Constant("scale", {kHidden});
  net.Output(net.Op("Mul", {scale, net.Layer(x)}));
  net.Output(net.Op("Mul", {net.Over(x, net.Mean(net.Square(x, true)), Root::kOneOver, 1e-6f), scale}));
  net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"LayerNormalization", "RMSNormalization"}));
  EXPECT_EQ(net.node(1).inputs, (std::vector<int>{x, scale}));
  EXPECT_FLOAT_EQ(net.FloatOf(1, "epsilon"), 1e-6f);
}

TEST(NormPassTest, CastsOfSixteenBitModelsGo) {
  for (const bool scale_in_float : {false, true}) {
    NormNet net(DataType::kFloat16);
    const int x = net.Hidden("x"), half_scale = net.Constant("scale", {kHidden});
    net.type = DataType::kFloat;
    const int wide = net.Cast(x, DataType::kFloat);
    const int core = net.Over(wide, net.Mean(net.Square(wide, true)), Root::kReciprocal);
    int y = -1;
    if (scale_in_float) {
      y = net.Cast(net.Op("Mul", {core, net.Constant("scale", {kHidden})}), DataType::kFloat16);
    } else {
      y = net.Op("Mul", {half_scale, net.Cast(core, DataType::kFloat16)});
      net.graph.value(y).type = DataType::kFloat16;
    }
    net.Output(y);
    net.Run();
    if (scale_in_float) {
      EXPECT_EQ(net.Operators(), (Ops{"Cast", "RMSNormalization", "Cast"}));
    } else {
      ASSERT_EQ(net.Operators(), Ops{"RMSNormalization"});
      EXPECT_EQ(net.node(0).inputs, (std::vector<int>{x, half_scale}));
    }
  }
}

// Scales of another shape, as one for each head, and gates are left to the nodes behind it.
TEST(NormPassTest, WithoutScaleItIsOne) {
  for (const bool centres : {false, true}) {
    NormNet net(DataType::kFloat16);
    const int x = net.Hidden("x");
    const int core = centres ? net.Layer(x) : net.Over(x, net.Mean(net.Square(x, true)), Root::kReciprocal);
    const int y = net.Op("Mul", {core, net.Constant("scale", {2, kHidden})});
    net.Output(y);
    net.Output(net.Op("Softmax", {core}));
    net.Run();
    ASSERT_EQ(net.Operators(), (Ops{centres ? "LayerNormalization" : "RMSNormalization", "Mul", "Softmax"}));
    EXPECT_EQ(net.node(0).outputs, std::vector<int>{core});
    EXPECT_EQ(*ir::NumbersOf(net.graph, net.node(0).inputs[1]), std::vector<double>(kHidden, 1.0));
    EXPECT_EQ(net.graph.value(net.node(0).inputs[1]).type, DataType::kFloat16);
  }
}

TEST(NormPassTest, OnesHaveTheTypeOfTheResult) {
  for (const bool back : {false, true}) {
    NormNet net(DataType::kFloat16);
    const int x = net.Hidden("x");
    net.type = DataType::kFloat;
    const int wide = net.Cast(x, DataType::kFloat);
    const int core = net.Over(wide, net.Mean(net.Square(wide, true)), Root::kReciprocal);
    net.Output(back ? net.Cast(core, DataType::kFloat16) : core);
    net.Run();
    EXPECT_EQ(net.Operators(), back ? Ops{"RMSNormalization"} : (Ops{"Cast", "RMSNormalization"}));
  }
}

TEST(NormPassTest, AnOpenSizeHasNoOnes) {
  NormNet net;
  const int x = net.Input("x", {kBatch, kRows, {kUnknownDim, "hidden"}});
  net.Output(net.Layer(x));
  const auto notes = net.Run();
  EXPECT_EQ(std::ranges::count(net.Operators(), "LayerNormalization"), 0);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].missed, "no scale of the size of the last dimension follows");
}

TEST(NormPassTest, WithoutEpsilonOfRootMeanSquareAlone) {
  NormNet net;
  const int x = net.Hidden("x"), scale = net.Constant("scale", {kHidden});
  const auto over = [&](int d) { return net.Over(d, net.Mean(net.Square(d, true)), Root::kDiv, NormNet::kNoEpsilon); };
  net.Output(net.Op("Mul", {over(x), scale}));
  net.Output(net.Op("Mul", {over(net.Op("Sub", {x, net.Mean(x)})), scale}));
  net.Run();
  const Ops ops = net.Operators();
  EXPECT_EQ(std::ranges::count(ops, "RMSNormalization"), 1);
  EXPECT_EQ(std::ranges::count(ops, "LayerNormalization"), 0);
  EXPECT_EQ(net.FloatOf(0, "epsilon"), 0);
}

TEST(NormPassTest, WhatIsNearlyANormStays) {
  for (int wrong = 0; wrong < 6; ++wrong) {
    NormNet net;
    const int x = net.Hidden("x"), other = net.Hidden("other");
    const std::vector<int64_t> axes = wrong == 0 ? std::vector<int64_t>{1} : std::vector<int64_t>{-1};
    const int d = net.Op("Sub", {x, net.Mean(wrong == 1 ? other : x, axes)});
    const int square = wrong == 2   ? net.Op("Mul", {d, other})
                       : wrong == 3 ? net.Op("Pow", {d, net.Scalar(3)})
                                    : net.Square(d, true);
    const int y = net.Over(d, net.Mean(square, axes), Root::kDiv, wrong == 4 ? 0.0f : 1e-5f);
    net.Output(net.Op("Mul", {y, wrong == 5 ? net.Constant("scale", {1}) : net.Constant("scale", {kHidden})}));
    net.Run();
    const Ops ops = net.Operators();
    EXPECT_EQ(std::count(ops.begin(), ops.end(), "LayerNormalization"), wrong == 5 ? 1 : 0) << wrong;
    EXPECT_TRUE(wrong != 5 || ops.back() == "Mul") << "by one number";
    // The root mean square of what is no deviation from the mean is one nonetheless.
    EXPECT_EQ(std::count(ops.begin(), ops.end(), "RMSNormalization"), wrong == 1 ? 1 : 0) << wrong;
  }
}

struct SkipNet : NormNet {
  explicit SkipNet(std::vector<Dim> other_dims = kHiddenDims) {
    a = Hidden("a");
    b = Input("b", std::move(other_dims));
    sum = Op("Add", {a, b});
    scale = Constant("scale", {kHidden}), bias = Constant("bias", {kHidden});
  }
  int Norm(const char* op, int axis = -1) {
    std::vector<int> inputs{sum, scale};
    if (std::string_view(op) == "LayerNormalization") inputs.push_back(bias);
    return Open(op, 17, inputs, 3, {{"axis", int64_t{axis}}, {"epsilon", 1e-6f}});
  }
  int a, b, sum, scale, bias;
};

TEST(SkipNormPassTest, SumsJoinTheNorm) {
  SkipNet net;
  net.Output(net.Norm("LayerNormalization"));
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"SkipLayerNormalization"});
  EXPECT_EQ(net.node(0).inputs, (std::vector<int>{net.a, net.b, net.scale, net.bias}));
  EXPECT_EQ(net.node(0).outputs, net.graph.outputs);
  EXPECT_FLOAT_EQ(net.FloatOf(0, "epsilon"), 1e-6f);
}

TEST(SkipNormPassTest, ImagesOfRowsAreRowsToo) {
  NormNet net;
  const std::vector<Dim> dims = {kBatch, {7}, {5}, {kHidden}};
  const int sum = net.Open("Add", 13, {net.Input("a", dims), net.Input("b", dims)}, 4);
  net.Output(net.Open("LayerNormalization", 17, {sum, net.Constant("scale", {kHidden})}, 4));
  net.Output(net.Open("Relu", 13, {sum}, 4));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"SkipLayerNormalization", "Relu"}));
}

TEST(SkipNormPassTest, TheSumIsAnOutputForOthersThatReadIt) {
  SkipNet net;
  const int between = net.Op("Relu", {net.sum});
  const int norm = net.Norm("RMSNormalization");
  net.graph.nodes.back().since_version = 23;
  net.Output(between);
  net.Output(norm);
  net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"SkipSimplifiedLayerNormalization", "Relu"}));
  EXPECT_EQ(net.node(0).outputs, (std::vector<int>{norm, -1, -1, net.sum}));
}

TEST(SkipNormPassTest, OneThatAsksForTheDimensionsReadsTheSum) {
  SkipNet net;
  net.Output(net.OnHost("Shape", 13, {net.sum}, 1));
  net.Output(net.Norm("LayerNormalization"));
  net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"SkipLayerNormalization", "Shape"}));
  EXPECT_EQ(net.node(0).outputs.back(), net.sum);
}

TEST(SkipNormPassTest, OtherSumsAndAxesStay) {
  for (const std::vector<Dim>& dims : {std::vector<Dim>{{kHidden}}, std::vector<Dim>{{1}, kRows, {kHidden}},
                                       std::vector<Dim>{kBatch, {kUnknownDim, "other"}, {kHidden}}}) {
    SkipNet net(dims);
    net.Output(net.Norm("LayerNormalization"));
    const auto notes = net.Run();
    EXPECT_EQ(net.Operators(), (Ops{"Add", "LayerNormalization"}));
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_NE(notes[0].missed, "");
  }
  SkipNet net;
  net.Output(net.Norm("LayerNormalization", 1));
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"Add", "LayerNormalization"}));
}

}  // namespace
}  // namespace cudaep::graph
