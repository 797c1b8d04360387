// Heads that are rotated by their position.
#include <gtest/gtest.h>

#include <algorithm>

#include "decoder_net.h"
#include "graph/ir/constants.h"

namespace cudaep::graph {
namespace {

Settings RotaryAlone() {
  return Without({Fusion::kAttention, Fusion::kDecoderAttention, Fusion::kProjections, Fusion::kProductEpilogue});
}

TEST(RotaryPassTest, EverySpelling) {
  for (int bits = 0; bits < 64; ++bits) {
    const bool interleaved = (bits & 32) != 0;
    DecoderNet net({.interleaved = interleaved,
                    .split = (bits & 1) != 0,
                    .negative = (bits & 2) != 0,
                    .turned = (bits & 4) != 0,
                    .late_turn = (bits & 8) != 0,
                    .repeated = false,
                    .dim = (bits & 16) != 0 ? 2 : kSize,
                    .cache = (bits & 8) != 0 ? std::vector<Dim>{kBatch, kRows, {1}, {(bits & 16) != 0 ? 2 : kSize}}
                                             : std::vector<Dim>{{1}, kRows, {(bits & 16) != 0 ? 2 : kSize}}});
    net.Run(RotaryAlone());
    ASSERT_EQ(Count(net, "RotaryEmbedding"), 2) << bits;
    for (const char* gone : {"Neg", "Slice", "Split", "Add"}) EXPECT_EQ(Count(net, gone), 0) << bits << gone;
    const ir::Node* const rotary = Find(net, "RotaryEmbedding");
    EXPECT_EQ(rotary->attributes.contains("interleaved"), interleaved);
    EXPECT_EQ(rotary->inputs[1], net.cos);
    EXPECT_EQ(rotary->inputs[2], net.sin);
    EXPECT_TRUE(net.MakerOf(rotary->inputs[0])->Is((bits & 8) != 0 ? "Reshape" : "Transpose"));
  }
}

TEST(RotaryPassTest, NothingThatIsJoinedGoes) {
  for (const bool interleaved : {false, true}) {
    DecoderNet net({.interleaved = interleaved, .nothing_left = true, .repeated = false});
    net.Run(RotaryAlone());
    EXPECT_EQ(Count(net, "RotaryEmbedding"), 2);
    EXPECT_EQ(Count(net, "Slice"), 0);
    EXPECT_EQ(Count(net, "Concat"), 2) << "of past and new keys and values";
  }
}

TEST(RotaryPassTest, WhatIsJoinedOtherwiseStays) {
  // Changes what joins the rotated elements, and what makes the others.
  const auto stays = [](int64_t dim, auto&& change) {
    DecoderNet net({.nothing_left = true, .repeated = false, .dim = dim, .cache = {{1}, {1}, kRows, {dim}}});
    for (size_t n = 1; n < net.graph.nodes.size(); ++n) {
      ir::Node &join = net.graph.nodes[n], &rest = net.graph.nodes[n - 1];
      if (join.Is("Concat") && rest.Is("Slice") && join.inputs[1] == rest.outputs[0]) {
        change(net, join, rest);
      }
    }
    net.Run(RotaryAlone());
    EXPECT_EQ(Count(net, "RotaryEmbedding"), 2);
    EXPECT_EQ(Count(net, "Concat"), 4) << dim;
  };
  for (const int64_t dim : {kSize, int64_t{2}}) {
    stays(dim, [](DecoderNet&, ir::Node& join, ir::Node&) { std::swap(join.inputs[0], join.inputs[1]); });
    stays(dim, [](DecoderNet& net, ir::Node&, ir::Node& rest) {  // of other heads
      rest.inputs[0] = net.Input("other", {kBatch, {kHeads}, kRows, {kSize}});
    });
    stays(dim, [](DecoderNet& net, ir::Node&, ir::Node& rest) {  // one more than is left
      rest.inputs[1] = net.Ints("begin", {net.s.dim - 1});
    });
    stays(dim, [](DecoderNet& net, ir::Node& join, ir::Node&) { net.Output(join.inputs[0]); });
  }
  stays(2, [](DecoderNet& net, ir::Node&, ir::Node& rest) {  // not all that is left
    rest.inputs[2] = net.Ints("end", {kSize - 1});
  });
}

TEST(RotaryPassTest, CachesThatDoNotFitStay) {
  const Dim other = {kUnknownDim, "other"};
  for (const std::vector<Dim>& cache :
       {std::vector<Dim>{{1}, {1}, other, {kSize}}, std::vector<Dim>{other, {1}, kRows, {kSize}},
        std::vector<Dim>{{1}, {kHeads}, kRows, {kSize}}, std::vector<Dim>{{1}, {1}, kRows, {1}},
        std::vector<Dim>{{1}, {1}, {1}, {1}, {kSize}}, std::vector<Dim>{}}) {
    DecoderNet net({.repeated = false, .cache = cache});
    const auto notes = net.Run(RotaryAlone());
    EXPECT_EQ(Count(net, "RotaryEmbedding"), 0);
    EXPECT_NE(Missed(notes).find("a row for each position"), std::string::npos);
  }
  DecoderNet net;
  net.graph.value(net.sin).dims->at(0) = kBatch;
  net.Run(RotaryAlone());
  EXPECT_EQ(Count(net, "RotaryEmbedding"), 0);
}

TEST(RotaryPassTest, OtherArithmeticStays) {
  const auto turned = [](auto&& change) {
    DecoderNet net;
    for (ir::Node& node : net.graph.nodes) {
      if (!node.on_host) change(net, node);
    }
    net.Run(RotaryAlone());
    EXPECT_EQ(Count(net, "RotaryEmbedding"), 0);
  };
  turned([](DecoderNet&, ir::Node& node) {
    if (node.Is("Neg")) node.op_type = "Abs";
  });
  turned([](DecoderNet&, ir::Node& node) {  // the first half is negated
    if (node.Is("Concat") && node.attributes.contains("axis") && node.inputs.size() == 2 &&
        std::get<int64_t>(node.attributes.at("axis")) == 3) {
      std::swap(node.inputs[0], node.inputs[1]);
    }
  });
  turned([](DecoderNet& net, ir::Node& node) {  // neighbours are pairs
    if (node.Is("Slice")) node.inputs[4] = net.Ints("step", {2});
  });
  turned([](DecoderNet& net, ir::Node& node) {  // quarters
    if (node.Is("Slice")) node.inputs[2] = net.Ints("end", {1});
  });
  turned([](DecoderNet& net, ir::Node& node) {  // of heads, not of elements
    if (node.Is("Slice")) node.inputs[3] = net.Ints("axis", {1});
  });
  turned([](DecoderNet&, ir::Node& node) {
    if (node.Is("Add")) node.op_type = "Sub";
  });
  turned([](DecoderNet& net, ir::Node& node) {  // of two tensors
    if (node.Is("Mul") && node.inputs[1] == net.cos) node.inputs[0] = net.x;
  });
}

TEST(RotaryPassTest, OtherPairsStay) {
  const auto stays = [](auto&& change) {
    DecoderNet net({.interleaved = true, .repeated = false});
    for (ir::Node& node : net.graph.nodes) change(net, node);
    net.Run(RotaryAlone());
    EXPECT_EQ(Count(net, "RotaryEmbedding"), 0);
  };
  const auto begins_at = [](const DecoderNet& net, const ir::Node& node, int64_t begin) {
    return node.Is("Slice") && ir::IntsOf(net.graph, node.inputs[1]) == std::vector{begin};
  };
  stays([](DecoderNet&, ir::Node& node) {
    if (node.Is("Neg")) node.op_type = "Abs";
  });
  stays([](DecoderNet& net, ir::Node& node) {  // the first of each pair is negated
    if (node.Is("Concat") && net.graph.value(node.outputs[0]).dims->size() == 5) {
      std::swap(node.inputs[0], node.inputs[1]);
    }
  });
  stays([&](DecoderNet& net, ir::Node& node) {  // twice the second of each pair
    if (begins_at(net, node, 0)) node.inputs[1] = net.Ints("begin", {1});
  });
  stays([&](DecoderNet& net, ir::Node& node) {  // twice the first
    if (begins_at(net, node, 1)) node.inputs[1] = net.Ints("begin", {0});
  });
  stays([](DecoderNet& net, ir::Node& node) {  // halves, pair by pair
    if (!node.Is("Slice")) return;
    const bool second = ir::IntsOf(net.graph, node.inputs[1]) == std::vector<int64_t>{1};
    node.inputs[1] = net.Ints("begin", {second ? kSize / 2 : 0});
    node.inputs[2] = net.Ints("end", {second ? kSize : kSize / 2});
    node.inputs[4] = net.Ints("step", {1});
  });
  stays([](DecoderNet& net, ir::Node& node) {  // of heads, not of elements
    if (node.Is("Slice")) node.inputs[3] = net.Ints("axis", {1});
  });
  stays([](DecoderNet& net, ir::Node& node) {  // beside each other, not pair by pair
    if (node.Is("Unsqueeze")) node.inputs[1] = net.Ints("axis", {3});
  });
  stays([](DecoderNet& net, ir::Node& node) {  // one after the other
    if (node.Is("Concat") && net.graph.value(node.outputs[0]).dims->size() == 5) {
      node.attributes["axis"] = int64_t{3};
    }
  });
  stays([&](DecoderNet& net, ir::Node& node) {  // of two tensors
    if (begins_at(net, node, 0)) {
      node.inputs[0] = net.Input("other", {kBatch, {kHeads}, kRows, {kSize}});
    }
  });
}

TEST(RotaryPassTest, PairsThatDoNotLieAsTheRowsStay) {
  DecoderNet net({.interleaved = true, .repeated = false});
  for (ir::Node& node : net.graph.nodes) {
    const auto& dims = net.graph.value(node.inputs[0]).dims;
    if (node.Is("Reshape") && dims && dims->size() == 5) node.inputs[1] = net.Ints("rows", {0, 1, -1, kSize});
  }
  const auto notes = net.Run(RotaryAlone());
  EXPECT_EQ(Count(net, "RotaryEmbedding"), 0);
  EXPECT_NE(Missed(notes).find("not stated to lie as the rows do"), std::string::npos);
}

TEST(RotaryPassTest, WhatOthersReadStays) {
  for (const bool interleaved : {false, true}) {
    DecoderNet net({.interleaved = interleaved, .repeated = false});
    const int across =
        std::ranges::find_if(net.graph.nodes, [](const ir::Node& node) { return node.Is("Neg"); })->outputs[0];
    net.Output(across);
    net.Run(RotaryAlone());
    EXPECT_EQ(Count(net, "RotaryEmbedding"), 2);
    EXPECT_EQ(Count(net, "Neg"), 1);
  }
}

// Of 16 bits, rotated in float.
struct Casts : Net {
  explicit Casts(DataType of_sines = DataType::kFloat16, DataType of_result = DataType::kFloat16) {
    x = OfType(Input("x", {kBatch, {kHeads}, kRows, {kSize}}), DataType::kFloat16);
    cos = OfType(Input("cos", {{1}, {1}, kRows, {kSize}}), DataType::kFloat16);
    sin = OfType(Input("sin", {{1}, {1}, kRows, {kSize}}), of_sines);
    const int wide = Cast(x, DataType::kFloat);
    const auto half = [&](int64_t begin, int64_t end) {
      return Open("Slice", 13, {wide, Ints("i", {begin}), Ints("i", {end}), Ints("i", {3})}, 4);
    };
    const int across = Open("Concat", 13, {Open("Neg", 13, {half(kSize / 2, kSize)}, 4), half(0, kSize / 2)}, 4,
                            {{"axis", int64_t{3}}});
    rotated = Open("Add", 13,
                   {Open("Mul", 13, {wide, Cast(cos, DataType::kFloat)}, 4),
                    Open("Mul", 13, {across, Cast(sin, DataType::kFloat)}, 4)},
                   4);
    Output(Cast(rotated, of_result));
  }
  int OfType(int value, DataType element) {
    graph.value(value).type = element;
    return value;
  }
  int Cast(int value, DataType to) {
    const int64_t onnx = to == DataType::kFloat ? 1 : to == DataType::kFloat16 ? 10 : 16;
    return OfType(Open("Cast", 13, {value}, graph.value(value).dims->size(), {{"to", onnx}}), to);
  }
  int x, cos, sin, rotated;
};

TEST(RotaryPassTest, CastsAroundARotationOfSixteenBitsGo) {
  Casts net;
  net.Run(RotaryAlone());
  ASSERT_EQ(net.Operators(), Ops{"RotaryEmbedding"});
  EXPECT_EQ(net.node(0).inputs, (std::vector<int>{net.x, net.cos, net.sin}));
  EXPECT_EQ(net.node(0).outputs, net.graph.outputs);
}

TEST(RotaryPassTest, CastsThatTakePartStay) {
  Casts sines(DataType::kBFloat16), result(DataType::kFloat16, DataType::kBFloat16), read;
  read.Output(read.rotated);
  for (Casts* const net : {&sines, &result, &read}) {
    const auto notes = net->Run(RotaryAlone());
    const ir::Node* const rotary = Find(*net, "RotaryEmbedding");
    ASSERT_NE(rotary, nullptr);
    EXPECT_EQ(net->graph.value(rotary->inputs[0]).type, DataType::kFloat);
    EXPECT_EQ(Count(*net, "Cast"), 4);
    EXPECT_EQ(Missed(notes), "");  // what is fused is no miss
  }
}

}  // namespace
}  // namespace cudaep::graph
