// Attention that is spelled out, with its heads split and merged by shape arithmetic.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/registry.h"
#include "transformer_net.h"

namespace cudaep::graph {
namespace {

struct Spelling {
  bool flat_keys = false;     // transposed with the heads in the batch
  bool scale_before = false;  // on queries and on keys
  bool mask_first = false;
  bool guard = false;
  bool static_target = false;  // a Reshape's target is 0, 0, heads, size
  bool no_mask = false;
  bool optimised = false;  // as the host's optimisers leave it: keys' transposition and scale in the product
  std::vector<Dim> mask = {kBatch, {1}, {1}, kRows};
};

struct AttentionNet : Net {
  explicit AttentionNet(const Spelling& s = {}) {
    x = Hidden("x");
    for (int i = 0; i < 3; ++i) {
      weights[i] = Constant("w", {kHidden, kHidden}), biases[i] = Constant("b", {kHidden});
      projected[i] = Op("Add", {biases[i], Op("MatMul", {x, weights[i]})});
    }
    const int shape = OnHost("Shape", 13, {x}, 1);
    const int batch = OnHost("Unsqueeze", 13, {OnHost("Gather", 13, {shape, Index(0)}, 0), Ints("i", {0})}, 1);
    const int rows = OnHost("Slice", 13, {shape, Ints("i", {1}), Ints("i", {2}), Ints("i", {0})}, 1);
    split = s.static_target
                ? Ints("split", {0, 0, kHeads, kSize})
                : OnHost("Concat", 13, {batch, rows, Ints("i", {-1}), Ints("i", {kSize})}, 1, {{"axis", int64_t{0}}});
    merged = OnHost("Concat", 13, {batch, rows, Ints("i", {kHidden})}, 1, {{"axis", int64_t{0}}});
    const int q = Heads(projected[0], {0, 2, 1, 3}), v = Heads(projected[2], {0, 2, 1, 3});
    const int keys = s.flat_keys ? Flat(Heads(projected[1], {0, 2, 1, 3})) : Heads(projected[1], {0, 2, 3, 1});
    if (s.optimised) {
      mask = Input("mask", s.mask);
      const int scores =
          Of("FusedMatMul", {q, Heads(projected[1], {0, 2, 1, 3})}, {{"transB", int64_t{1}}, {"alpha", 0.25f}});
      soft = Of("BiasSoftmax", {scores, mask}, {{"axis", int64_t{3}}, {"is_inner_broadcast", int64_t{1}}});
      product = Wide("MatMul", {soft, v});
      return;
    }
    int scores = s.scale_before
                     ? Open("MatMul", 13, {Wide("Mul", {q, Scalar(0.5f)}), Wide("Mul", {keys, Scalar(0.5f)})}, 4)
                     : Wide("Div", {Wide("MatMul", {q, keys}), Scalar(4)});
    if (!s.no_mask) {
      mask = Input("mask", s.mask);
      scores = s.mask_first ? Wide("Add", {mask, scores}) : Wide("Add", {scores, mask});
    }
    soft = Open("Softmax", 13, {scores}, 4, {{"axis", int64_t{-1}}});
    if (s.guard) {
      const int is_nan = Wide("IsNaN", {soft});
      graph.value(is_nan).type = DataType::kBool;
      soft = Wide("Where", {is_nan, Scalar(0), soft});
    }
    product = Wide("MatMul", {soft, v});
  }
  int Of(const char* op, std::vector<int> inputs, ops::Attributes attributes) {
    const int made = Open(op, 1, std::move(inputs), 4, std::move(attributes));
    graph.nodes.back().domain = ops::kMicrosoftDomain;
    return made;
  }
  int Wide(const char* op, std::vector<int> inputs) { return Open(op, 13, std::move(inputs), 4); }
  int Turned(int value, std::vector<int64_t> perm) {
    return Open("Transpose", 13, {value}, perm.size(), {{"perm", perm}});
  }
  int Heads(int value, std::vector<int64_t> perm) { return Turned(Wide("Reshape", {value, split}), std::move(perm)); }
  // As the decomposition of scaled_dot_product_attention has it.
  int Flat(int k) {
    const int shape = OnHost("Shape", 13, {k}, 1);
    const auto part = [&](int64_t from, int64_t to) {
      return OnHost("Slice", 13, {shape, Ints("i", {from}), Ints("i", {to})}, 1);
    };
    const int size = part(-1, INT64_MAX), rows = part(-2, -1), ahead = part(INT64_MIN, -2);
    const auto join = [&](std::vector<int> parts) {
      return OnHost("Concat", 13, std::move(parts), 1, {{"axis", int64_t{0}}});
    };
    const int flat = Open("Reshape", 13, {k, join({Ints("i", {-1}), rows, size})}, 3);
    return Wide("Reshape", {Turned(flat, {0, 2, 1}), join({ahead, size, rows})});
  }
  int Merge(std::vector<int64_t> perm = {0, 2, 1, 3}) {
    return Open("Reshape", 13, {Turned(product, std::move(perm)), merged}, 3);
  }
  float ScaleOf(size_t index) const { return FloatOf(index, "scale"); }

  int x, weights[3], biases[3], projected[3], split, merged, mask = -1, soft, product;
};

Settings Without(Fusion fusion) {
  Settings settings;
  settings.fusion_skip.Add(fusion);
  return settings;
}

TEST(AttentionPassTest, EverySpellingOnSplitHeads) {
  for (int bits = 0; bits < 32; ++bits) {
    AttentionNet net({.flat_keys = (bits & 1) != 0,
                      .scale_before = (bits & 2) != 0,
                      .mask_first = (bits & 4) != 0,
                      .guard = (bits & 8) != 0,
                      .static_target = (bits & 16) != 0});
    net.Output(net.Merge());
    net.Run(Without(Fusion::kProjections));
    ASSERT_EQ(net.Operators(), (Ops{"MatMul", "MatMul", "MatMul", "Attention"})) << bits;
    EXPECT_EQ(net.node(3).inputs, (std::vector<int>{net.projected[0], net.projected[1], net.projected[2], net.mask}));
    EXPECT_EQ(net.node(3).outputs, net.graph.outputs);
    EXPECT_FLOAT_EQ(net.ScaleOf(3), 0.25f);
    EXPECT_EQ(net.node(3).attributes.contains("empty_is_nan"), (bits & 8) == 0);
    EXPECT_EQ(std::get<int64_t>(net.node(3).attributes.at("q_num_heads")), kHeads);
  }
}

TEST(AttentionPassTest, AsTheHostsOptimisersLeaveIt) {
  AttentionNet net({.optimised = true});
  net.Output(net.Merge());
  net.Run(Without(Fusion::kProjections));
  ASSERT_EQ(net.Operators(), (Ops{"MatMul", "MatMul", "MatMul", "Attention"}));
  EXPECT_EQ(net.node(3).inputs, (std::vector<int>{net.projected[0], net.projected[1], net.projected[2], net.mask}));
  EXPECT_FLOAT_EQ(net.ScaleOf(3), 0.25f);
  EXPECT_TRUE(net.node(3).attributes.contains("empty_is_nan"));
}

// A bias of which BiasSoftmax takes other rows than a sum would, and products that turn more than the keys' last two
// dimensions.
TEST(AttentionPassTest, OptimisersFormsThatAreNoAttentionStay) {
  for (const char* attribute : {"is_inner_broadcast", "transA", "transBatchA", "transBatchB"}) {
    AttentionNet net({.optimised = true});
    for (ir::Node& node : net.graph.nodes) {
      const bool of_softmax = std::string_view(attribute) == "is_inner_broadcast";
      if (node.Is(of_softmax ? "BiasSoftmax" : "FusedMatMul", ops::kMicrosoftDomain)) {
        node.attributes[attribute] = int64_t{of_softmax ? 0 : 1};
      }
    }
    net.Output(net.Merge());
    net.Run();
    const Ops ops = net.Operators();
    EXPECT_EQ(std::count(ops.begin(), ops.end(), "Attention"), 0) << attribute;
  }
}

TEST(AttentionPassTest, WeightsThatOthersReadStay) {
  for (const auto& [guard, leaves] : {std::pair{false, "Softmax"}, {true, "Softmax"}, {true, "Where"}}) {
    AttentionNet net({.guard = guard});
    net.Output(net.Merge());
    net.Output(
        std::ranges::find_if(net.graph.nodes, [&](const ir::Node& node) { return node.Is(leaves); })->outputs[0]);
    const auto notes = net.Run(Without(Fusion::kProductEpilogue));
    const Ops ops = net.Operators();
    EXPECT_EQ(std::count(ops.begin(), ops.end(), "Attention"), 0);
    EXPECT_TRUE(
        std::ranges::any_of(notes, [](const FusionNote& note) { return note.missed == "others read the weights"; }));
  }
}

TEST(AttentionPassTest, WhyItIsNoneIsSaid) {
  const auto missed = [](AttentionNet& net) {
    net.Output(net.Merge());
    const auto notes = net.Run(Without(Fusion::kProductEpilogue));
    return notes.empty() ? std::string() : notes[0].missed;
  };
  AttentionNet scaled;
  for (ir::Node& node : scaled.graph.nodes) {
    if (node.Is("Div")) node.inputs[1] = scaled.Input("scale", {});
  }
  EXPECT_EQ(missed(scaled), "the scores are no product with a constant scale and what is done to them one by one");
  AttentionNet mixed;
  mixed.graph.value(mixed.mask).type = DataType::kDouble;
  EXPECT_EQ(missed(mixed), "queries, keys, values and masks are of several types");
}

TEST(AttentionPassTest, WithoutAMask) {
  AttentionNet net({.no_mask = true});
  net.Output(net.Merge());
  net.Run(Without(Fusion::kProjections));
  ASSERT_EQ(net.Operators().back(), "Attention");
  EXPECT_EQ(net.graph.nodes.back().inputs.size(), 3u);
  EXPECT_TRUE(net.graph.nodes.back().attributes.contains("empty_is_nan"));
}

TEST(AttentionPassTest, ProjectionsBecomeOneProduct) {
  AttentionNet net;
  net.Output(net.Merge());
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"Attention"});
  const ir::Node& node = net.node(0);
  EXPECT_EQ(node.domain, ops::kMicrosoftDomain);
  ASSERT_EQ(node.inputs.size(), 6u);
  EXPECT_EQ(node.inputs[0], net.x);
  EXPECT_TRUE(SameDims(net.graph.value(node.inputs[1]).constant.dims(), Shape{kHidden, 3 * kHidden}));
  EXPECT_TRUE(SameDims(net.graph.value(node.inputs[2]).constant.dims(), Shape{3 * kHidden}));
  EXPECT_EQ(node.inputs[5], net.mask);
  EXPECT_EQ(std::get<int64_t>(node.attributes.at("num_heads")), kHeads);
  EXPECT_FLOAT_EQ(net.ScaleOf(0), 0.25f);
  EXPECT_TRUE(node.attributes.contains("empty_is_nan"));
}

TEST(AttentionPassTest, WeightsAreSideBySide) {
  AttentionNet net;
  for (int i = 0; i < 3; ++i) {
    const ops::TensorView& view = net.graph.value(net.weights[i]).constant;
    auto* data = static_cast<float*>(const_cast<void*>(view.data));  // of the net's own constant
    for (int64_t e = 0; e < view.elems(); ++e) data[e] = static_cast<float>(100 * i) + static_cast<float>(e);
  }
  net.Output(net.Merge());
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"Attention"});
  const auto joined = net.graph.value(net.node(0).inputs[1]).constant.host<float>();
  for (int64_t row = 0; row < kHidden; ++row) {
    for (int64_t column = 0; column < 3 * kHidden; ++column) {
      const auto expected = static_cast<float>(100 * (column / kHidden) + row * kHidden + column % kHidden);
      EXPECT_EQ(joined[static_cast<size_t>(row * 3 * kHidden + column)], expected);
    }
  }
}

TEST(AttentionPassTest, AProjectionThatOthersReadStays) {
  AttentionNet net;
  net.Output(net.Merge());
  net.Output(net.projected[1]);
  net.Run();
  EXPECT_EQ(net.Operators(), (Ops{"MatMul", "MatMul", "MatMul", "Attention"}));
}

TEST(AttentionPassTest, AProjectionWhoseDimensionsAreReadIsPartOfOneProduct) {
  AttentionNet net;
  const int dims = net.OnHost("Shape", 13, {net.projected[1]}, 1);
  net.Output(net.Open("Reshape", 14, {net.Merge(), dims}, 3));
  net.Run();
  const auto packed = std::ranges::find_if(
      net.graph.nodes, [](const ir::Node& node) { return node.Is("Attention", ops::kMicrosoftDomain); });
  ASSERT_NE(packed, net.graph.nodes.end());
  EXPECT_EQ(packed->inputs[0], net.x);
}

TEST(AttentionPassTest, HeadsThatAreNotMergedStayApart) {
  for (const bool flat_keys : {true, false}) {
    AttentionNet net({.flat_keys = flat_keys});
    net.Output(net.Merge({2, 0, 1, 3}));
    const auto notes = net.Run(Without(Fusion::kProductEpilogue));
    const Ops ops = net.Operators();
    EXPECT_EQ(std::count(ops.begin(), ops.end(), "Attention"), 1);
    EXPECT_EQ(std::count(ops.begin(), ops.end(), "Softmax"), 0);
    ASSERT_EQ(std::count(ops.begin(), ops.end(), "Transpose"), 4);
    for (size_t n = 0; n < ops.size(); ++n) {
      if (ops[n] != "Attention") continue;
      // Before it, and of whole heads: what it reads was turned by them.
      for (size_t i = 0; i < 3; ++i) {
        const auto maker = std::ranges::find_if(
            net.graph.nodes, [&](const ir::Node& node) { return node.outputs[0] == net.node(n).inputs[i]; });
        ASSERT_LT(maker - net.graph.nodes.begin(), static_cast<int64_t>(n));
        ASSERT_TRUE(maker->Is("Transpose"));
        EXPECT_EQ(std::get<std::vector<int64_t>>(maker->attributes.at("perm")), (std::vector<int64_t>{0, 2, 1, 3}));
      }
      // Nothing that makes the queries, keys and values.
      EXPECT_EQ(std::ranges::count(net.node(n).sources, "MatMul"), 2);
    }
  }
}

// The region's result stays the product's operand, whatever attention reads.
TEST(AttentionPassTest, KeysThatLeaveAreMadeOnce) {
  AttentionNet net;
  net.Output(net.Merge({2, 0, 1, 3}));
  const int keys = std::ranges::find_if(net.graph.nodes, [&](const ir::Node& node) {
                     return node.Is("Transpose") && std::get<std::vector<int64_t>>(node.attributes.at("perm")) ==
                                                        std::vector<int64_t>{0, 2, 3, 1};
                   })->outputs[0];
  net.Output(keys);
  net.Run(Without(Fusion::kProductEpilogue));
  int made = 0;
  for (const ir::Node& node : net.graph.nodes) {
    for (const int output : node.outputs) made += net.graph.value(output).output == 1 ? 1 : 0;
  }
  EXPECT_EQ(made, 1);
}

TEST(AttentionPassTest, MasksThatMightWidenTheScoresStay) {
  const Dim other = {kUnknownDim, "other"};
  for (const std::vector<Dim>& mask :
       {std::vector<Dim>{other, {1}, {1}, kRows}, std::vector<Dim>{kBatch, {1}, {1}, other},
        std::vector<Dim>{{2}, kBatch, {1}, {1}, kRows}}) {
    AttentionNet net({.mask = mask});
    net.Output(net.Turned(net.product, {0, 2, 1, 3}));
    const auto notes = net.Run(Without(Fusion::kProductEpilogue));
    const Ops ops = net.Operators();
    EXPECT_EQ(std::count(ops.begin(), ops.end(), "Attention"), 0);
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_NE(notes[0].missed, "");
  }
}

TEST(AttentionPassTest, SoftmaxOfAnotherAxisStays) {
  AttentionNet net;
  for (ir::Node& node : net.graph.nodes) {
    if (node.Is("Softmax")) node.attributes["axis"] = int64_t{1};
  }
  net.Output(net.Merge());
  net.Run();
  const Ops ops = net.Operators();
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "Attention"), 0);
}

TEST(AttentionPassTest, KeysInAnotherOrderAreTurnedOnce) {
  Net net;
  const std::vector<Dim> heads_first = {kBatch, {kHeads}, kRows, {kSize}};
  const int q = net.Input("q", heads_first), v = net.Input("v", heads_first);
  const int k = net.Input("k", {kRows, kBatch, {kHeads}, {kSize}});
  const int keys = net.Open("Transpose", 13, {k}, 4, {{"perm", std::vector<int64_t>{1, 2, 3, 0}}});
  const int scores = net.Open("Mul", 13, {net.Open("MatMul", 13, {q, keys}, 4), net.Scalar(0.5f)}, 4);
  const int weights = net.Open("Softmax", 13, {scores}, 4, {{"axis", int64_t{-1}}});
  net.Output(net.Open("MatMul", 13, {weights, v}, 4));
  net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"Transpose", "Attention"}));
  EXPECT_EQ(net.node(0).inputs[0], k);
  EXPECT_EQ(std::get<std::vector<int64_t>>(net.node(0).attributes.at("perm")), (std::vector<int64_t>{1, 2, 0, 3}));
  EXPECT_EQ(net.node(1).inputs, (std::vector<int>{q, net.node(0).outputs[0], v}));
}

}  // namespace
}  // namespace cudaep::graph
