// What is said of dimensions before a region runs.
#include "graph/ir/dims.h"

#include <gtest/gtest.h>

#include "core/strings.h"
#include "graph_builder.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

struct DimsNet : Builder {
  // x: [batch, length, 12]
  DimsNet() { x = Input("x", {{kUnknownDim, "batch"}, {kUnknownDim, "length"}, {12}}); }

  // Dimensions of the node's outputs, of which only the rank is stated.
  std::vector<std::string> Of(const char* op, int version, std::vector<int> inputs, size_t outputs = 1,
                              ops::Attributes attributes = {}, size_t rank = 3, const char* domain = "") {
    Add(op, version, std::move(inputs), std::vector<ir::Dim>(rank), std::move(attributes));
    graph.nodes.back().domain = domain;
    std::vector<int>& made = graph.nodes.back().outputs;
    for (size_t i = 1; i < outputs; ++i) made.push_back(Value(op, std::vector<ir::Dim>(rank)));
    ir::StateDims(graph);
    std::vector<std::string> texts;
    for (const int output : graph.nodes.back().outputs) {
      std::string text;
      for (const ir::Dim& dim : *graph.value(output).dims) {
        const bool own = dim.symbol.starts_with('#');  // nothing is known of it
        text += StrCat(text.empty() ? "" : ",", dim.known() ? std::to_string(dim.size) : own ? "?" : dim.symbol);
      }
      texts.push_back(std::move(text));
    }
    return texts;
  }

  int x;
};

using Texts = std::vector<std::string>;

TEST(Dims, SplitCutsOneAxis) {
  DimsNet listed;
  EXPECT_EQ(listed.Of("Split", 13, {listed.x, listed.Ints("sizes", {4, 8})}, 2, {{"axis", int64_t{-1}}}),
            (Texts{"batch,length,4", "batch,length,8"}));
  DimsNet attribute;
  EXPECT_EQ(attribute.Of("Split", 11, {attribute.x}, 2, {{"axis", int64_t{2}}, {"split", std::vector<int64_t>{5, 7}}}),
            (Texts{"batch,length,5", "batch,length,7"}));
  DimsNet equal;
  EXPECT_EQ(equal.Of("Split", 18, {equal.x}, 5, {{"axis", int64_t{2}}, {"num_outputs", int64_t{5}}}),
            (Texts{"batch,length,3", "batch,length,3", "batch,length,3", "batch,length,3", "batch,length,0"}));
  DimsNet symbolic;
  EXPECT_EQ(symbolic.Of("Split", 18, {symbolic.x}, 2, {{"axis", int64_t{1}}, {"num_outputs", int64_t{2}}}),
            (Texts{"batch,?,12", "batch,?,12"}));
  DimsNet computed;
  const int sizes = computed.Input("sizes", {{2}});
  computed.graph.value(sizes).type = DataType::kInt64;
  EXPECT_EQ(computed.Of("Split", 13, {computed.x, sizes}, 2, {{"axis", int64_t{2}}}),
            (Texts{"batch,length,?", "batch,length,?"}));
}

TEST(Dims, ResizeKeepsWhatItDoesNotScale) {
  const auto resized = [](std::vector<float> scales, ops::Attributes attributes = {}) {
    DimsNet net;
    const int by = net.Vector("scales", DataType::kFloat, std::move(scales));
    return net.Of("Resize", 19, {net.x, -1, by}, 1, std::move(attributes));
  };
  EXPECT_EQ(resized({1, 1, 2}), Texts{"batch,length,24"});
  EXPECT_EQ(resized({1, 2, 0.5f}), Texts{"batch,2*length,?"});
  EXPECT_EQ(resized({1, 1}), Texts{"?,?,?"});
  EXPECT_EQ(resized({1, 1, 2}, {{"axes", std::vector<int64_t>{2, 1, 0}}}), Texts{"?,?,?"});
  EXPECT_EQ(resized({1, 1, 2}, {{"coordinate_transformation_mode", std::string("tf_crop_and_resize")}}),
            Texts{"?,?,?"});
}

TEST(Dims, TileMultiplies) {
  DimsNet net;
  EXPECT_EQ(net.Of("Tile", 13, {net.x, net.Ints("repeats", {1, 2, 3})}), Texts{"batch,2*length,36"});
}

TEST(Dims, PadsAddUp) {
  const auto padded = [](std::vector<int64_t> pads, std::vector<int64_t> axes = {}) {
    DimsNet net;
    std::vector<int> inputs = {net.x, net.Ints("pads", std::move(pads))};
    if (!axes.empty()) inputs.insert(inputs.end(), {-1, net.Ints("axes", std::move(axes))});
    return net.Of("Pad", 18, inputs);
  };
  EXPECT_EQ(padded({0, 0, 1, 0, 0, 2}), Texts{"batch,length,15"});
  EXPECT_EQ(padded({0, 0, -3, 0, 0, 1}), Texts{"batch,length,10"});
  EXPECT_EQ(padded({0, 1, 0, 0, 0, 0}), Texts{"batch,?,12"});
  EXPECT_EQ(padded({4, 1, 3, 0}, {-1, 0}), Texts{"?,length,19"});
  EXPECT_EQ(padded({0, 0}), Texts{"?,?,?"});
  DimsNet attribute;
  EXPECT_EQ(attribute.Of("Pad", 2, {attribute.x}, 1, {{"pads", std::vector<int64_t>{0, 0, 5, 0, 0, 0}}}),
            Texts{"batch,length,17"});
  DimsNet computed;
  const int pads = computed.Input("pads", {{6}});
  computed.graph.value(pads).type = DataType::kInt64;
  EXPECT_EQ(computed.Of("Pad", 13, {computed.x, pads}), Texts{"?,?,?"});
}

TEST(Dims, FlattenFoldsOnBothSides) {
  const auto flat = [](int64_t axis) {
    DimsNet net;
    return net.Of("Flatten", 13, {net.x}, 1, {{"axis", axis}}, 2);
  };
  EXPECT_EQ(flat(0), Texts{"1,12*batch*length"});
  EXPECT_EQ(flat(1), Texts{"batch,12*length"});
  EXPECT_EQ(flat(-1), Texts{"batch*length,12"});
  EXPECT_EQ(flat(3), Texts{"12*batch*length,1"});
}

TEST(Dims, SlicesOfKnownSizes) {
  const auto slice = [](int64_t start, int64_t end, int64_t axis, int64_t step = 1) {
    DimsNet net;
    return net.Of("Slice", 13,
                  {net.x, net.Ints("starts", {start}), net.Ints("ends", {end}), net.Ints("axes", {axis}),
                   net.Ints("steps", {step})});
  };
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(slice(2, 5, 2), Texts{"batch,length,3"});
  EXPECT_EQ(slice(-5, kEnd, -1), Texts{"batch,length,5"});
  EXPECT_EQ(slice(0, 40, 2), Texts{"batch,length,12"});
  EXPECT_EQ(slice(8, 4, 2), Texts{"batch,length,0"});
  EXPECT_EQ(slice(1, kEnd, 2, 2), Texts{"batch,length,6"});
  EXPECT_EQ(slice(-1, -kEnd, 2, -5), Texts{"batch,length,3"});
  EXPECT_EQ(slice(0, kEnd, 1, 2), Texts{"batch,?,12"});
  EXPECT_EQ(slice(0, kEnd, 1), Texts{"batch,length,12"});
  EXPECT_EQ(slice(0, 12, 1), Texts{"batch,?,12"});
  EXPECT_EQ(slice(1, kEnd, 1), Texts{"batch,?,12"});
}

// What the host's optimisers make says what it replaced did.
TEST(Dims, FusedOperatorsKeepWhatIsKnown) {
  const auto of = [](const char* op, size_t outputs, ops::Attributes attributes, std::vector<ir::Dim> second) {
    DimsNet net;
    const int other = net.Input("other", std::move(second));
    return net.Of(op, 1, {net.x, other}, outputs, std::move(attributes), 3, ops::kMicrosoftDomain);
  };
  const char *const like_x = "batch,length,12", *const unknown = "?,?,?";
  for (const char* op : {"BiasDropout", "BiasGelu", "BiasSoftmax", "DequantizeLinear", "FastGelu", "Gelu",
                         "QuantizeLinear", "QuickGelu", "RotaryEmbedding"}) {
    EXPECT_EQ(of(op, 2, {}, {{12}}), (Texts{like_x, unknown})) << op;
  }
  for (const char* op : {"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}) {
    EXPECT_EQ(of(op, 4, {}, {{12}}), (Texts{like_x, unknown, unknown, like_x})) << op;
  }
  EXPECT_EQ(of("BiasDropout", 4, {}, {{12}}).back(), unknown);
  const std::vector<ir::Dim> rows = {{kUnknownDim, "batch"}, {kUnknownDim, "keys"}, {12}};
  EXPECT_EQ(of("FusedMatMul", 1, {{"transB", int64_t{1}}}, rows), Texts{"batch,length,keys"});
  EXPECT_EQ(of("FusedMatMul", 1, {{"transA", int64_t{1}}}, {{kUnknownDim, "length"}, {7}}), Texts{"batch,12,7"});
  EXPECT_EQ(of("FusedMatMul", 1, {{"transBatchA", int64_t{1}}}, rows), Texts{unknown});
}

// ONNX's own inference says that a Slice backwards without an end takes nothing.
TEST(Dims, WhatFollowsIsBetterThanWhatIsStated) {
  DimsNet net;
  const auto ints = [&](const char* name, int64_t number) { return net.Ints(name, {number}); };
  const int y = net.Add("Slice", 13,
                        {net.x, ints("starts", -1), ints("ends", std::numeric_limits<int64_t>::max()), ints("axes", 2),
                         ints("steps", -1)},
                        {{kUnknownDim, "batch"}, {kUnknownDim, "length"}, {0}});
  const int z = net.Add("Neg", 13, {y}, {{kUnknownDim, "batch"}, {kUnknownDim, "length"}, {0}});
  ir::StateDims(net.graph);
  for (const int value : {y, z}) EXPECT_EQ((*net.graph.value(value).dims)[2].size, 12);
}

// A net with inputs of the given dimensions, and the dimensions of a node that reads them in order.
struct Operands : DimsNet {
  explicit Operands(std::vector<std::vector<ir::Dim>> dims) {
    for (auto& one : dims) inputs.push_back(Input("input", std::move(one)));
  }
  Texts Made(const char* op, int version, size_t rank, ops::Attributes attributes = {}, size_t outputs = 1,
             const char* domain = "") {
    return Of(op, version, inputs, outputs, std::move(attributes), rank, domain);
  }

  std::vector<int> inputs;
};

const ir::Dim kBatch{kUnknownDim, "batch"}, kLength{kUnknownDim, "length"}, kPast{kUnknownDim, "past"};

TEST(Dims, LikeTheFirstInput) {
  for (const char* op :
       {"CumSum", "DynamicQuantizeLinear", "PRelu", "ScatterElements", "ScatterND", "Sign", "Softplus"}) {
    Operands net({{kBatch, kLength, {12}}, {{1}}});
    EXPECT_EQ(net.Made(op, 13, 3), Texts{"batch,length,12"}) << op;
  }
  for (const char* op : {"BitwiseAnd", "Mean", "Sum", "Xor"}) {
    Operands net({{kBatch, {1}, {12}}, {kLength, {12}}});
    EXPECT_EQ(net.Made(op, 13, 3), Texts{"batch,length,12"}) << op;
  }
}

TEST(Dims, ConstantOfShapeIsWhatItIsAsked) {
  DimsNet net;
  const int shape = net.Add("Shape", 15, {net.x}, {{3}});
  net.graph.value(shape).type = DataType::kInt64;
  EXPECT_EQ(net.Of("ConstantOfShape", 9, {shape}), Texts{"batch,length,12"});
}

TEST(Dims, ReducedAxesGoOrAreOne) {
  const auto reduced = [](const char* op, int version, ops::Attributes attributes, std::vector<int64_t> axes = {}) {
    DimsNet net;
    const size_t rank = attributes.contains("keepdims") ? 2 : 3;
    std::vector<int> inputs = {net.x};
    if (!axes.empty()) inputs.push_back(net.Ints("axes", std::move(axes)));
    return net.Of(op, version, inputs, 1, std::move(attributes), rank);
  };
  EXPECT_EQ(reduced("ReduceL2", 18, {}, {-1}), Texts{"batch,length,1"});
  EXPECT_EQ(reduced("ReduceL2", 13, {{"axes", std::vector<int64_t>{1}}}), Texts{"batch,1,12"});
  EXPECT_EQ(reduced("ReduceSum", 13, {{"keepdims", int64_t{0}}}, {1}), Texts{"batch,12"});
  EXPECT_EQ(reduced("ReduceMax", 18, {}), Texts{"1,1,1"});
  EXPECT_EQ(reduced("ReduceMax", 18, {{"noop_with_empty_axes", int64_t{1}}}), Texts{"batch,length,12"});
  EXPECT_EQ(reduced("ArgMax", 13, {{"axis", int64_t{2}}}), Texts{"batch,length,1"});
  EXPECT_EQ(reduced("ArgMin", 13, {{"keepdims", int64_t{0}}}), Texts{"length,12"});
  Operands computed({{kBatch, kLength, {12}}, {{1}}});
  computed.graph.value(computed.inputs[1]).type = DataType::kInt64;
  EXPECT_EQ(computed.Made("ReduceSum", 13, 3), Texts{"?,?,?"});
}

TEST(Dims, TopKTakesItsNumber) {
  DimsNet net;
  EXPECT_EQ(net.Of("TopK", 11, {net.x, net.Ints("k", {5})}, 2), (Texts{"batch,length,5", "batch,length,5"}));
  DimsNet first;
  EXPECT_EQ(first.Of("TopK", 1, {first.x}, 1, {{"k", int64_t{4}}, {"axis", int64_t{1}}}), Texts{"batch,4,12"});
}

TEST(Dims, OneHotAddsAnAxis) {
  DimsNet net;
  EXPECT_EQ(net.Of("OneHot", 11, {net.x, net.Ints("depth", {7}), net.Ints("values", {0, 1})}, 1, {}, 4),
            Texts{"batch,length,12,7"});
  DimsNet first;
  EXPECT_EQ(first.Of("OneHot", 11, {first.x, first.Ints("depth", {7}), first.Ints("values", {0, 1})}, 1,
                     {{"axis", int64_t{0}}}, 4),
            Texts{"7,batch,length,12"});
}

TEST(Dims, SpaceAndDepth) {
  const auto folded = [](const char* op, std::vector<ir::Dim> x) {
    return Operands({std::move(x)}).Made(op, 13, 4, {{"blocksize", int64_t{2}}});
  };
  EXPECT_EQ(folded("SpaceToDepth", {kBatch, {3}, {8}, {6}}), Texts{"batch,12,4,3"});
  EXPECT_EQ(folded("DepthToSpace", {kBatch, {12}, {4}, kLength}), Texts{"batch,3,8,2*length"});
  EXPECT_EQ(folded("SpaceToDepth", {kBatch, {3}, kLength, {6}}), Texts{"batch,12,?,3"});
}

TEST(Dims, ProductsOfCodes) {
  const std::vector<ir::Dim> x = {kBatch, kLength, {12}}, w = {{12}, {5}}, one = {};
  EXPECT_EQ(Operands({x, w}).Made("MatMulInteger", 10, 3), Texts{"batch,length,5"});
  EXPECT_EQ(Operands({x, one, one, w}).Made("QLinearMatMul", 10, 3), Texts{"batch,length,5"});
  const std::vector<ir::Dim> image = {kBatch, {4}, {9}, {9}}, filters = {{8}, {4}, {3}, {3}};
  EXPECT_EQ(Operands({image, filters}).Made("ConvInteger", 10, 4), Texts{"batch,8,7,7"});
  EXPECT_EQ(Operands({image, one, one, filters}).Made("QLinearConv", 10, 4), Texts{"batch,8,7,7"});
  const char* const ms = ops::kMicrosoftDomain;
  EXPECT_EQ(Operands({x, one, one, {kLength, {1}}}).Made("QLinearAdd", 1, 3, {}, 1, ms), Texts{"batch,length,12"});
  EXPECT_EQ(Operands({{kBatch, {12}}, one, one, {{5}, {12}}}).Made("QGemm", 1, 2, {{"transB", int64_t{1}}}, 1, ms),
            Texts{"batch,5"});
  EXPECT_EQ(Operands({x, w}).Made("DynamicQuantizeMatMul", 1, 3, {}, 1, ms), Texts{"batch,length,5"});
  EXPECT_EQ(Operands({x, {{64}}}).Made("MatMulNBits", 1, 3, {{"N", int64_t{64}}}, 1, ms), Texts{"batch,length,64"});
}

TEST(Dims, ConvTransposeSaysAllButThePixels) {
  Operands net({{kBatch, {4}, {9}, {9}}, {{4}, {8}, {3}, {3}}});
  EXPECT_EQ(net.Made("ConvTranspose", 11, 4, {{"group", int64_t{2}}}), Texts{"batch,16,?,?"});
}

TEST(Dims, ResizeToSizes) {
  const auto resized = [](ops::Attributes attributes) {
    DimsNet net;
    const int shape = net.Add("Shape", 15, {net.x}, {{3}});
    net.graph.value(shape).type = DataType::kInt64;
    return net.Of("Resize", 19, {net.Input("image", {{2}, {3}, {4}}), -1, -1, shape}, 1, std::move(attributes));
  };
  EXPECT_EQ(resized({}), Texts{"batch,length,12"});
  EXPECT_EQ(resized({{"keep_aspect_ratio_policy", std::string("not_larger")}}), Texts{"?,?,?"});
}

TEST(Dims, RoiAlign) {
  Operands net({{kBatch, {8}, {32}, {32}}, {kLength, {4}}});
  EXPECT_EQ(net.Made("RoiAlign", 16, 4, {{"output_height", int64_t{7}}}), Texts{"length,8,7,1"});
}

TEST(Dims, NetworksWithAState) {
  const auto made = [](ops::Attributes attributes) {
    attributes.insert({"hidden_size", int64_t{5}});
    Operands net({{kLength, kBatch, {6}}, {{2}, {15}, {6}}});
    return net.Made("GRU", 14, 4, std::move(attributes), 2);
  };
  EXPECT_EQ(made({}), (Texts{"length,2,batch,5", "2,batch,5"}));
  EXPECT_EQ(made({{"layout", int64_t{1}}}), (Texts{"length,batch,2,5", "length,2,5"}));
}

// What hosts state of these is wrong for some of them, and not kept.
TEST(Dims, AttentionSaysAll) {
  const auto made = [](std::vector<std::vector<ir::Dim>> dims, ops::Attributes attributes = {}, size_t rank = 3) {
    return Operands(std::move(dims)).Made("Attention", 23, rank, std::move(attributes), 4);
  };
  const ops::Attributes heads = {{"q_num_heads", int64_t{6}}, {"kv_num_heads", int64_t{2}}};
  const std::vector<ir::Dim> keys = {kBatch, kPast, {14}}, values = {kBatch, kPast, {8}};
  EXPECT_EQ(made({{kBatch, kLength, {42}}, keys, values}, heads),
            (Texts{"batch,length,24", "batch,2,past,7", "batch,2,past,4", "batch,6,length,past"}));
  EXPECT_EQ(
      made({{kBatch, {6}, kLength, {7}}, {kBatch, {3}, {5}, {7}}, {kBatch, {3}, {5}, {4}}, {}, {{2}, {3}, {4}, {7}}},
           {}, 4),
      (Texts{"batch,6,length,4", "batch,3,9,7", "batch,3,9,4", "batch,6,length,9"}));
  const char* const ms = ops::kMicrosoftDomain;
  const std::vector<ir::Dim> x = {kBatch, kLength, {10}};
  EXPECT_EQ(Operands({x, {{10}, {24}}}).Made("Attention", 1, 3, {{"num_heads", int64_t{4}}}, 1, ms),
            Texts{"batch,length,8"});
  EXPECT_EQ(Operands({x, {{10}, {24}}})
                .Made("Attention", 1, 3, {{"qkv_hidden_sizes", std::vector<int64_t>{6, 6, 12}}}, 1, ms),
            Texts{"batch,length,12"});
  const ops::Attributes two = {{"num_heads", int64_t{2}}};
  EXPECT_EQ(
      Operands({{kBatch, kLength, {32}}, {kBatch, {3}, {32}}, {kBatch, {3}, {10}}, {}, {}, {}, {{2}, {2}, {6}, {16}}})
          .Made("MultiHeadAttention", 1, 3, two, 3, ms),
      (Texts{"batch,length,10", "batch,2,9,16", "batch,2,9,5"}));
  EXPECT_EQ(Operands({{kBatch, kLength, {2}, {3}, {8}}}).Made("MultiHeadAttention", 1, 3, two, 3, ms),
            (Texts{"batch,length,16", "batch,2,length,8", "batch,2,length,8"}));
  EXPECT_EQ(
      Operands({{kBatch, kLength, {16}}, {kBatch, kPast, {2}, {2}, {8}}}).Made("MultiHeadAttention", 1, 3, two, 2, ms),
      (Texts{"batch,length,16", "batch,2,past,8"}));
}

// As hosts state them.
TEST(Dims, WrongNumbersOfAttentionAreNotKept) {
  const auto last = [](const char* op, const char* domain, std::vector<std::vector<ir::Dim>> inputs,
                       ops::Attributes attributes) {
    Operands net(std::move(inputs));
    net.Add(op, 1, net.inputs, {kBatch, kLength, {0}}, std::move(attributes));
    net.graph.nodes.back().domain = domain;
    ir::StateDims(net.graph);
    return net.graph.value(net.graph.nodes.back().outputs[0]).dims->back().size;
  };
  const std::vector<ir::Dim> x = {kBatch, kLength, {6}}, keys = {kBatch, kPast, {6}}, values = {kBatch, kPast, {10}};
  const ops::Attributes two = {{"num_heads", int64_t{2}}};
  EXPECT_EQ(last("Attention", "", {x, keys, values}, {{"q_num_heads", int64_t{2}}, {"kv_num_heads", int64_t{2}}}), 10);
  EXPECT_EQ(last("Attention", "", {x, keys, values}, {}), kUnknownDim);
  EXPECT_EQ(last("Attention", ops::kMicrosoftDomain, {x, {{6}, {24}}}, two), 8);
  EXPECT_EQ(last("MultiHeadAttention", ops::kMicrosoftDomain, {x, keys, values}, two), 10);
  EXPECT_EQ(last("MultiHeadAttention", ops::kMicrosoftDomain, {x, keys, values}, {}), kUnknownDim);
}

// Present keys are written into the buffer of past ones.
TEST(Dims, PastThatIsABuffer) {
  const std::vector<ir::Dim> x = {kBatch, {1}, {16}}, past = {kBatch, {2}, kPast, {8}};
  Operands net({x, x, x, {}, {}, {}, past, past, {{1}}});
  EXPECT_EQ(net.Made("MultiHeadAttention", 1, 3, {{"num_heads", int64_t{2}}}, 4, ops::kMicrosoftDomain),
            (Texts{"batch,1,16", "batch,2,past,8", "batch,2,past,8", "batch,2,1,?"}));
}

TEST(Dims, EinsumBroadcastsOnes) {
  const auto made = [](const char* equation, std::vector<ir::Dim> a, std::vector<ir::Dim> b) {
    return Operands({std::move(a), std::move(b)}).Made("Einsum", 12, 3, {{"equation", std::string(equation)}});
  };
  EXPECT_EQ(made("bid, bjd -> bij", {{1}, kLength, {3}}, {kBatch, {4}, {3}}), Texts{"batch,length,4"});
  EXPECT_EQ(made("bid,bjd->bji", {kBatch, kLength, {3}}, {kPast, {4}, {3}}), Texts{"?,4,length"});
  EXPECT_EQ(made("...id,...jd->...ij", {kBatch, kLength, {3}}, {kBatch, {4}, {3}}), Texts{"?,?,?"});
  EXPECT_EQ(made("bid,bjd", {kBatch, kLength, {3}}, {kBatch, {4}, {3}}), Texts{"?,?,?"});
}

// What a host makes of its own wrong number.
TEST(Dims, WhatFollowsFromWrongNumbersIsNotKept) {
  DimsNet net;
  const int x = net.Input("x", {{2}, {2}, {5}});
  const int pool = net.Add(
      "MaxPool", 12, {x}, {{2}, {2}, {3}},
      {{"kernel_shape", std::vector<int64_t>{1}}, {"strides", std::vector<int64_t>{3}}, {"ceil_mode", int64_t{1}}});
  const int larger =
      net.Add("Resize", 19, {pool, -1, net.Vector("scales", DataType::kFloat, std::vector<float>{1, 1, 1.5f})},
              {{2}, {2}, {4}});
  const int other = net.Add("Custom", 1, {larger}, {{2}, {2}, {4}});
  const int right = net.Add("Custom", 1, {x}, {{2}, {2}, {4}});
  ir::StateDims(net.graph);
  EXPECT_EQ((*net.graph.value(pool).dims)[2].size, 2);
  EXPECT_EQ((*net.graph.value(larger).dims)[0].size, 2);
  for (const int value : {larger, other}) EXPECT_FALSE((*net.graph.value(value).dims)[2].known());
  EXPECT_EQ((*net.graph.value(right).dims)[2].size, 4);
}

TEST(Dims, SizesThatNodesDoNotHave) {
  Operands state({{kLength, kBatch, {6}}, {{2}, {15}, {6}}, {{2}, {15}, {5}}});
  EXPECT_EQ(state.Made("LSTM", 14, 3, {}, 3)[1], "2,batch,5");
  DimsNet few;
  EXPECT_EQ(few.Of("TopK", 1, {few.x}, 1, {{"k", int64_t{-4}}}), Texts{"batch,length,?"});
}

TEST(Dims, WrongNumbersOfHostsAreNotKept) {
  const auto stated = [](const char* op, std::vector<int> inputs, DimsNet& net, std::vector<ir::Dim> dims,
                         ops::Attributes attributes = {}) {
    const int y = net.Add(op, 13, std::move(inputs), std::move(dims), std::move(attributes));
    const int z = net.Add("Relu", 14, {y}, std::vector<ir::Dim>(*net.graph.value(y).dims));
    ir::StateDims(net.graph);
    std::string text;
    for (const ir::Dim& dim : *net.graph.value(z).dims) {
      text += StrCat(text.empty() ? "" : ",", dim.known() ? std::to_string(dim.size) : dim.symbol);
    }
    return text;
  };
  {
    DimsNet net;  // axes of an input that is no constant
    const int axes = net.Input("axes", {{1}});
    net.graph.value(axes).type = DataType::kInt64;
    const int y =
        net.Add("Slice", 13, {net.x, net.Ints("starts", {1}), net.Ints("ends", {3}), axes}, {kBatch, kLength, {2}});
    ir::StateDims(net.graph);
    for (const ir::Dim& dim : *net.graph.value(y).dims) EXPECT_TRUE(dim.symbol.starts_with('#')) << dim.size;
  }
  {
    DimsNet net;  // axes out of order
    const int x = net.Input("x", {{1}, kBatch, {1}, {5}});
    EXPECT_EQ(stated("Squeeze", {x, net.Ints("axes", {2, 0})}, net, {{1}, kBatch, {5}}), "batch,5");
  }
  {
    DimsNet net;  // a window that would begin in the padding behind the image
    const int x = net.Input("x", {{2}, {2}, {11}});
    EXPECT_EQ(stated("AveragePool", {x}, net, {{2}, {2}, {5}},
                     {{"kernel_shape", std::vector<int64_t>{2}},
                      {"strides", std::vector<int64_t>{3}},
                      {"pads", std::vector<int64_t>{1, 0}},
                      {"ceil_mode", int64_t{1}}}),
              "2,2,4");
  }
}

}  // namespace
}  // namespace cudaep::graph
