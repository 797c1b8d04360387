// Attention of decoders: groups of heads, and what is around it.
#include <gtest/gtest.h>

#include <algorithm>

#include "decoder_net.h"

namespace cudaep::graph {
namespace {

Settings GroupsAlone() {
  return Without({Fusion::kRotary, Fusion::kDecoderAttention, Fusion::kProjections, Fusion::kProductEpilogue});
}

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
    DecoderNet net({.norms = norms,
                    .late_turn = late_turn,
                    .rotated = rotated,
                    .past = past,
                    .leaves = leaves,
                    .repeated = repeated,
                    .cache = CacheOf(late_turn)});
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

TEST(DecoderAttentionTest, CosinesAloneAreNotTurnedBack) {
  DecoderNet net({.late_turn = true, .one_turned = true});
  net.Run(WithoutProjections());
  const ir::Node* const fused = Find(net, "Attention");
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(fused->inputs[6], net.cos);
  EXPECT_EQ(fused->inputs[7], net.sin);
  EXPECT_EQ(Count(net, "Transpose"), 1);
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

TEST(DecoderAttentionTest, NormsBehindTheRotationAreDoneThere) {
  for (const bool late_turn : {false, true}) {
    DecoderNet net({.norms = true, .norm_last = true, .late_turn = late_turn, .cache = CacheOf(late_turn)});
    net.Run(WithoutProjections());
    const ir::Node* const fused = Find(net, "Attention");
    ASSERT_NE(fused, nullptr);
    EXPECT_EQ(std::get<int64_t>(fused->attributes.at("norm_last")), 1);
    EXPECT_EQ(fused->inputs[0], net.projected[0]);
    EXPECT_EQ(fused->inputs[6], net.cos);
    EXPECT_EQ(fused->inputs.back(), net.norm);
    EXPECT_EQ(Count(net, "RMSNormalization") + Count(net, "RotaryEmbedding"), 0);
  }
  DecoderNet before({.norms = true});
  before.Run(WithoutProjections());
  EXPECT_FALSE(Find(before, "Attention")->attributes.contains("norm_last"));
}

TEST(DecoderAttentionTest, NormsOfOneBehindTheRotationStay) {
  for (const bool late_turn : {false, true}) {
    DecoderNet net({.norms = true, .norm_last = true, .late_turn = late_turn, .cache = CacheOf(late_turn)});
    net.Run(Without({Fusion::kDecoderAttention, Fusion::kProjections, Fusion::kProductEpilogue}));
    const auto rotation = std::ranges::find_if(
        net.graph.nodes, [](const ir::Node& node) { return node.Is("RotaryEmbedding", ops::kFusedDomain); });
    const auto norm = std::next(rotation);  // of the queries, which come first
    ASSERT_TRUE(norm->Is("RMSNormalization"));
    std::swap(rotation->inputs[0], norm->inputs[0]);
    std::swap(rotation->outputs, norm->outputs);
    std::iter_swap(rotation, norm);
    const auto notes = net.Run(WithoutProjections());
    EXPECT_EQ(Find(net, "Attention"), nullptr);
    EXPECT_EQ(Count(net, "RMSNormalization"), 2);
    const char* const why = late_turn ? "rotated by other angles" : "not normalised alike, with their heads first";
    EXPECT_NE(Missed(notes).find(why), std::string::npos) << Missed(notes);
  }
}

TEST(DecoderAttentionTest, RotationsThatOthersReadAreNoPart) {
  DecoderNet net({.norms = true, .norm_last = true, .late_turn = true, .cache = CacheOf(true)});
  for (const ir::Node& node : net.graph.nodes) {
    if (node.Is("Add")) net.Output(node.outputs[0]);
  }
  net.Run(WithoutProjections());
  const ir::Node* const fused = Find(net, "Attention");
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(fused->inputs[6], -1);
  EXPECT_EQ(fused->inputs.back(), net.norm);
  EXPECT_FALSE(fused->attributes.contains("norm_last"));
  EXPECT_EQ(Count(net, "RotaryEmbedding"), 2);
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
