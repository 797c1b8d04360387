// Attention of decoders whose product has queries, keys and values head by head.
#include <gtest/gtest.h>

#include <algorithm>

#include "decoder_net.h"
#include "graph/ir/constants.h"

namespace cudaep::graph {
namespace {

TEST(DecoderPartsTest, PartsOfEachHeadAreReadThere) {
  for (int bits = 0; bits < 16; ++bits) {
    const bool norms = (bits & 2) != 0, late_turn = (bits & 4) != 0, past = (bits & 8) != 0;
    DecoderNet net({.negative = (bits & 1) != 0,
                    .norms = norms,
                    .late_turn = late_turn,
                    .past = past,
                    .repeated = false,
                    .head_parts = 3,
                    .cache = CacheOf(late_turn)});
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
TEST(DecoderPartsTest, OtherPartsOfHeadsStay) {
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

TEST(DecoderPartsTest, PartsOfHeadsOfTwoTensorsStay) {
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

TEST(DecoderPartsTest, PartsOfNormsOfOtherEpsilonsStay) {
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

}  // namespace
}  // namespace cudaep::graph
