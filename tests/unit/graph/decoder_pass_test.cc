// Attention of decoders: groups of heads, and what is around it.
#include <gtest/gtest.h>

#include <algorithm>

#include "decoder_net.h"
#include "graph/ir/constants.h"

namespace cudaep::graph {
namespace {

Settings GroupsAlone() {
  return Without({Fusion::kRotary, Fusion::kDecoderAttention, Fusion::kProjections, Fusion::kProductEpilogue});
}
Settings WithoutProjections() { return Without({Fusion::kProjections, Fusion::kProductEpilogue}); }

TEST(GroupedHeadsTest, AttentionReadsEachHeadOnce) {
  DecoderNet net;
  net.Run(GroupsAlone());
  EXPECT_EQ(Count(net, "Expand"), 0);
  const ir::Node* const attention = Find(net, "Attention", "");
  ASSERT_NE(attention, nullptr);
  EXPECT_EQ(attention->inputs, (std::vector<int>{net.q, net.present[0], net.present[1]}));
}

TEST(GroupedHeadsTest, FlatHeadsSayHowMany) {
  DecoderNet net({.rotated = false, .past = false, .leaves = false});
  net.Run(GroupsAlone());
  const ir::Node* const attention = Find(net, "Attention", "");
  ASSERT_NE(attention, nullptr);
  EXPECT_EQ(attention->inputs, (std::vector<int>{net.projected[0], net.projected[1], net.projected[2]}));
  EXPECT_EQ(std::get<int64_t>(attention->attributes.at("q_num_heads")), kHeads);
  EXPECT_EQ(std::get<int64_t>(attention->attributes.at("kv_num_heads")), kKvHeads);
  EXPECT_EQ(attention->outputs, std::vector<int>{net.merged});
}

TEST(GroupedHeadsTest, RepeatedHeadsThatOthersReadAreMadeForThem) {
  DecoderNet net;
  net.Output(net.v);
  net.Run(GroupsAlone());
  EXPECT_EQ(Count(net, "Expand"), 1);
  EXPECT_EQ(Find(net, "Attention", "")->inputs[2], net.present[1]);
}

TEST(GroupedHeadsTest, OtherRepetitionsStay) {
  const auto stays = [](auto&& change) {
    DecoderNet net;
    change(net);
    net.Run(GroupsAlone());
    const ir::Node* const attention = Find(net, "Attention", "");
    ASSERT_NE(attention, nullptr);
    EXPECT_EQ(attention->inputs[1], net.k);
    EXPECT_EQ(attention->inputs[2], net.v);
  };
  stays([](DecoderNet& net) {  // all heads, and all of them again
    for (ir::Node& node : net.graph.nodes) {
      if (node.Is("Unsqueeze")) node.inputs[1] = net.Ints("axis", {1});
      if (node.Is("Concat") && node.inputs.size() == 4) std::swap(node.inputs[1], node.inputs[2]);
    }
  });
  stays([](DecoderNet& net) {  // only the keys
    for (ir::Node& node : net.graph.nodes) {
      if (!node.Is("MatMul") || node.outputs[0] != net.product) continue;
      net.v = node.inputs[1] = net.Input("v", {kBatch, {kHeads}, {kUnknownDim, "all"}, {kSize}});
    }
  });
}

TEST(DecoderAttentionTest, OneOperatorDoesWhatIsAround) {
  for (int bits = 0; bits < 64; ++bits) {
    const bool past = (bits & 1) != 0, leaves = (bits & 2) != 0, rotated = (bits & 4) != 0, norms = (bits & 8) != 0;
    const bool late_turn = (bits & 16) != 0, repeated = (bits & 32) != 0;
    DecoderNet net(
        {.norms = norms,
         .late_turn = late_turn,
         .rotated = rotated,
         .past = past,
         .leaves = leaves,
         .repeated = repeated,
         .cache = late_turn ? std::vector<Dim>{{1}, kRows, {1}, {kSize}} : std::vector<Dim>{{1}, {1}, kRows, {kSize}}});
    net.Run(WithoutProjections());
    const ir::Node* const fused = Find(net, "Attention");
    if (!past && !rotated && !norms) {
      EXPECT_EQ(fused, nullptr) << bits;  // what the attention pass makes is as good
      continue;
    }
    ASSERT_NE(fused, nullptr) << bits;
    EXPECT_EQ(Count(net, "Transpose") + Count(net, "Concat") + Count(net, "RotaryEmbedding"), 0) << bits;
    EXPECT_EQ(Count(net, "RMSNormalization"), 0) << bits;
    const auto given = [](bool is, int value) { return is ? value : -1; };
    EXPECT_EQ(fused->inputs[0], net.projected[0]) << bits;
    EXPECT_EQ(fused->inputs[2], net.projected[2]) << bits;
    EXPECT_EQ(std::vector<int>(fused->inputs.begin() + 3, fused->inputs.end() - 2),
              (std::vector<int>{-1, net.past[0], net.past[1], net.cos, net.sin}))
        << bits;
    EXPECT_EQ(fused->inputs.back(), given(norms, net.norm)) << bits;
    EXPECT_EQ(fused->outputs,
              (std::vector<int>{net.merged, given(leaves, net.present[0]), given(leaves, net.present[1])}))
        << bits;
    EXPECT_EQ(std::get<int64_t>(fused->attributes.at("q_num_heads")), kHeads);
    EXPECT_EQ(std::get<int64_t>(fused->attributes.at("kv_num_heads")), repeated ? kKvHeads : kHeads);
    EXPECT_FLOAT_EQ(std::get<float>(fused->attributes.at("scale")), 0.5f);
    EXPECT_EQ(fused->attributes.contains("norm_epsilon"), norms);
  }
}

TEST(DecoderAttentionTest, AnglesThatTheHostTurnedAreTheSame) {
  DecoderNet net({.late_keys = true});
  net.Run(WithoutProjections());
  const ir::Node* const fused = Find(net, "Attention");
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(fused->inputs[6], net.cos);
  EXPECT_EQ(fused->inputs[7], net.sin);
  EXPECT_EQ(Count(net, "Transpose"), 0);
}

TEST(DecoderAttentionTest, NeighboursAreRotatedAsTheyAre) {
  DecoderNet net({.interleaved = true, .repeated = false, .dim = 2, .cache = {{1}, {1}, kRows, {2}}});
  net.Run(WithoutProjections());
  const ir::Node* const fused = Find(net, "Attention");
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(fused->inputs[6], net.cos);
  EXPECT_EQ(std::get<int64_t>(fused->attributes.at("rotary_interleaved")), 1);
  EXPECT_EQ(Count(net, "RotaryEmbedding") + Count(net, "Slice"), 0);
}

TEST(DecoderAttentionTest, NeighboursOfQueriesAndHalvesOfKeysStay) {
  DecoderNet net({.interleaved = true});
  net.Run(Without({Fusion::kDecoderAttention, Fusion::kProjections, Fusion::kProductEpilogue}));
  std::ranges::find_if(net.graph.nodes, [](const ir::Node& node) {
    return node.Is("RotaryEmbedding", ops::kFusedDomain);
  })->attributes.erase("interleaved");
  const auto notes = net.Run(WithoutProjections());
  EXPECT_EQ(Find(net, "Attention"), nullptr);
  EXPECT_EQ(Count(net, "RotaryEmbedding"), 2);
  EXPECT_NE(Missed(notes).find("either queries or keys have neighbours rotated"), std::string::npos);
}

TEST(DecoderAttentionTest, PartsOfEachHeadAreReadThere) {
  for (int bits = 0; bits < 16; ++bits) {
    const bool norms = (bits & 2) != 0, late_turn = (bits & 4) != 0, past = (bits & 8) != 0;
    DecoderNet net({.negative = (bits & 1) != 0,
                    .norms = norms,
                    .late_turn = late_turn,
                    .past = past,
                    .repeated = false,
                    .head_parts = 3,
                    .cache = {late_turn ? std::vector<Dim>{kRows, {1}, {kSize}} : std::vector<Dim>{kRows, {kSize}}}});
    net.Run(WithoutProjections());
    const ir::Node* const fused = Find(net, "Attention");
    ASSERT_NE(fused, nullptr) << bits;
    EXPECT_EQ(std::vector<int>(fused->inputs.begin(), fused->inputs.begin() + 3),
              (std::vector<int>{net.projected[0], -1, -1}))
        << bits;
    EXPECT_EQ(fused->inputs.back(), norms ? net.norm : -1) << bits;
    EXPECT_EQ(fused->inputs[4], net.past[0]) << bits;
    EXPECT_EQ(std::get<int64_t>(fused->attributes.at("packed_by_head")), 1);
    EXPECT_EQ(std::get<int64_t>(fused->attributes.at("head_size")), kSize);
    EXPECT_EQ(Count(net, "Slice") + Count(net, "Transpose"), 0) << bits;
  }
}

// Heads that were turned before stay as they are; others are taken apart by nodes.
TEST(DecoderAttentionTest, OtherPartsOfHeadsStay) {
  const auto stays = [](int64_t head_parts, auto&& change) {
    for (const bool late_turn : {false, true}) {
      DecoderNet net({.late_turn = late_turn, .rotated = false, .repeated = false, .head_parts = head_parts});
      for (ir::Node& node : net.graph.nodes) {
        if (node.Is("Slice")) change(net, node, ir::IntsOf(net.graph, node.inputs[1])->front() / kSize);
      }
      const auto notes = net.Run(WithoutProjections());
      const ir::Node* const fused = Find(net, "Attention");
      ASSERT_EQ(fused != nullptr, late_turn);
      if (late_turn) {
        EXPECT_FALSE(fused->attributes.contains("packed_by_head"));
        EXPECT_TRUE(net.MakerOf(fused->inputs[0])->Is("Slice"));
      } else {
        EXPECT_NE(Missed(notes).find("the parts of each head are not queries, keys and values"), std::string::npos);
      }
    }
  };
  const auto take = [](DecoderNet& net, ir::Node& node, int64_t part) {
    node.inputs[1] = net.Ints("begin", {part * kSize});
    node.inputs[2] = net.Ints("end", {(part + 1) * kSize});
  };
  stays(4, [](DecoderNet&, ir::Node&, int64_t) {});  // values are not the last
  stays(3, [&](DecoderNet& net, ir::Node& node, int64_t part) { take(net, node, (3 - part) % 3); });  // keys are last
  stays(3, [&](DecoderNet& net, ir::Node& node, int64_t part) { take(net, node, std::max<int64_t>(part, 1)); });
  stays(3, [&](DecoderNet& net, ir::Node& node, int64_t part) { take(net, node, part == 1 ? 0 : part); });
}

TEST(DecoderAttentionTest, PartsOfHeadsOfTwoTensorsStay) {
  DecoderNet net({.late_turn = true, .rotated = false, .repeated = false, .head_parts = 3});
  for (ir::Node& node : net.graph.nodes) {
    const bool is_keys = node.Is("Slice") && ir::IntsOf(net.graph, node.inputs[1]) == std::vector{kSize};
    if (is_keys) node.inputs[0] = net.Input("other", {kBatch, kRows, {kHeads}, {3 * kSize}});
  }
  net.Run(WithoutProjections());
  const ir::Node* const fused = Find(net, "Attention");
  ASSERT_NE(fused, nullptr);
  EXPECT_FALSE(fused->attributes.contains("packed_by_head"));
}

TEST(DecoderAttentionTest, PartsOfNormsOfOtherEpsilonsStay) {
  DecoderNet net({.norms = true, .late_turn = true, .rotated = false, .repeated = false, .head_parts = 3});
  for (ir::Node& node : net.graph.nodes) {
    if (!node.Is("RMSNormalization")) continue;
    node.attributes["epsilon"] = 0.5f;
    break;
  }
  net.Run(WithoutProjections());
  const ir::Node* const fused = Find(net, "Attention");
  ASSERT_NE(fused, nullptr);
  EXPECT_FALSE(fused->attributes.contains("packed_by_head"));
  EXPECT_TRUE(net.MakerOf(fused->inputs[0])->Is("RMSNormalization"));
  EXPECT_TRUE(net.MakerOf(fused->inputs[2])->Is("Slice"));
}

// Each with the reason that the log gives.
TEST(DecoderAttentionTest, WhatDoesNotFitStays) {
  const auto stays = [](const char* why, const DecoderSpelling& spelling, auto&& change) {
    DecoderNet net(spelling);
    change(net);
    const auto notes = net.Run(WithoutProjections());
    EXPECT_EQ(Find(net, "Attention"), nullptr) << why;
    EXPECT_NE(Find(net, "Attention", ""), nullptr) << why;
    EXPECT_NE(Missed(notes).find(why), std::string::npos) << Missed(notes);
  };
  stays("rotated by other angles", {}, [](DecoderNet& net) {
    const int other = net.Input("other", net.s.cache);
    for (ir::Node& node : net.graph.nodes) {
      if (!node.Is("Mul") || node.inputs[1] != net.cos) continue;
      node.inputs[1] = other;  // of the queries, which come first
      break;
    }
  });
  stays("keys are appended and values are not", {.leaves = false, .repeated = false}, [](DecoderNet& net) {
    const int alone = net.MakerOf(net.present[1])->inputs[1];
    for (ir::Node& reader : net.graph.nodes) std::ranges::replace(reader.inputs, net.present[1], alone);
  });
  stays("values are normalised or rotated", {.leaves = false}, [](DecoderNet& net) {
    const auto split = std::ranges::find_if(net.graph.nodes, [&](const ir::Node& node) {
      return node.Is("Reshape") && node.inputs[0] == net.projected[2];
    });
    const int made = split->outputs[0], plain = split->outputs[0] = net.Value("plain", std::vector<Dim>(4));
    net.Insert(split - net.graph.nodes.begin() + 1, "RMSNormalization", 23, {plain, net.Constant("norm", {kSize})},
               made);
  });
  stays("are read before", {}, [](DecoderNet& net) {
    const auto at = net.MakerOf(net.present[1]) - net.graph.nodes.data() + 1;
    const int result = net.Value("result", std::vector<Dim>(4));
    net.Insert(at, "Relu", 14, {net.present[1]}, result);
    net.Output(result);
  });
}

// Since version 24 keys that the mask has no column for are hidden.
TEST(DecoderAttentionTest, MasksThatMayBeShortStay) {
  const auto is_fused = [](int version, const Dim& columns) {
    DecoderNet net({.past = false});
    net.Run(Without({Fusion::kDecoderAttention, Fusion::kProjections, Fusion::kProductEpilogue}));
    const auto attention =
        std::ranges::find_if(net.graph.nodes, [](const ir::Node& node) { return node.Is("Attention"); });
    attention->since_version = version;
    attention->inputs.push_back(net.Input("mask", {kRows, columns}));
    net.Run(WithoutProjections());
    return Find(net, "Attention") != nullptr;
  };
  for (const Dim& columns : {Dim{5}, Dim{1}}) {
    EXPECT_FALSE(is_fused(24, columns)) << columns.size;
    EXPECT_TRUE(is_fused(23, columns)) << columns.size;
  }
  EXPECT_TRUE(is_fused(24, kRows));
}

TEST(DecoderAttentionTest, QueriesThatOthersReadStay) {
  DecoderNet net;
  net.Output(net.q);
  net.Run(WithoutProjections());
  EXPECT_EQ(Find(net, "Attention"), nullptr);
  EXPECT_EQ(Count(net, "RotaryEmbedding"), 2);
}

TEST(DecoderAttentionTest, ResultsThatAreNotTurnedStay) {
  DecoderNet net;
  net.Output(net.product);
  net.Run(WithoutProjections());
  EXPECT_EQ(Find(net, "Attention"), nullptr);
}

TEST(DecoderAttentionTest, HeadsThatAreMergedOtherwiseStayApart) {
  DecoderNet net;
  ir::Node& merge = net.graph.nodes.back();
  merge.inputs[1] = net.Ints("flat", {-1, kHidden});
  net.graph.value(net.merged).dims = std::vector<Dim>(2);
  const int turned = merge.inputs[0];
  net.Run(WithoutProjections());
  const ir::Node* const fused = Find(net, "Attention");
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(fused->outputs[0], turned);
  EXPECT_EQ(std::get<int64_t>(fused->attributes.at("heads_apart")), 1);
  EXPECT_EQ(Count(net, "Transpose"), 0);
}

TEST(DecoderAttentionTest, AnglesOfHeadsStay) {
  for (const bool late_turn : {false, true}) {
    std::vector<Dim> cache = {{1}, {1}, {1}, {kSize}};
    cache[late_turn ? 2 : 1] = {kHeads};
    DecoderNet net({.late_turn = late_turn, .repeated = false, .cache = cache});
    net.Run(WithoutProjections());
    EXPECT_EQ(Count(net, "RotaryEmbedding"), 2);
  }
}

TEST(DecoderAttentionTest, WhoAsksForDimensionsOfTheResultIsTold) {
  for (const bool turned : {false, true}) {
    DecoderNet net;
    const int result = turned ? net.MakerOf(net.merged)->inputs[0] : net.product;
    net.Output(net.OnHost("Shape", 13, {result}, 1));
    net.Run(WithoutProjections());
    ASSERT_NE(Find(net, "Attention"), nullptr);
    for (const ir::Node& node : net.graph.nodes) {
      for (const int input : node.inputs) {
        EXPECT_TRUE(input != net.product) << node.op_type << " reads what nothing makes";
      }
    }
    EXPECT_EQ(Count(net, "Transpose"), turned ? 2 : 1) << "of the queries, and what is turned back";
  }
}

TEST(DecoderAttentionTest, NormsOfOtherEpsilonsStayNodes) {
  DecoderNet net({.norms = true});
  for (ir::Node& node : net.graph.nodes) {
    if (!node.Is("RMSNormalization")) continue;
    node.attributes["epsilon"] = 0.5f;
    break;
  }
  net.Run(WithoutProjections());
  const ir::Node* const fused = Find(net, "Attention");
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(Count(net, "RMSNormalization"), 2);
  EXPECT_TRUE(net.MakerOf(fused->inputs[0])->Is("RMSNormalization"));
  EXPECT_EQ(fused->inputs.back(), -1);
}

}  // namespace
}  // namespace cudaep::graph
