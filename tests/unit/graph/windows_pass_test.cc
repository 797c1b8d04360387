// Windows of images: attention with a mask for each window of an image.
#include <gtest/gtest.h>

#include <algorithm>

#include "transformer_net.h"

namespace cudaep::graph {
namespace {

constexpr int64_t kWindows = 4, kTokens = 9;
const Dim kAllWindows = {kUnknownDim, "4*batch"};

struct Masks {
  std::vector<Dim> bias = {{1}, {kHeads}, {kTokens}, {kTokens}};  // empty: none
  std::vector<Dim> windows = {{1}, {kWindows}, {1}, {kTokens}, {kTokens}};
  std::vector<int64_t> apart = {-1, kWindows, kHeads, kTokens, kTokens};
  bool windows_first = false;
};

// Packed queries, keys and values of all windows, [4 * batch, tokens, 3 * hidden].
struct WindowNet : Net {
  explicit WindowNet(const Masks& m = {}) {
    packed = Input("packed", {kAllWindows, {kTokens}, {3 * kHidden}});
    int part[3];
    for (int64_t i = 0; i < 3; ++i) {
      const int cut =
          Open("Slice", 13, {packed, Ints("b", {i * kHidden}), Ints("e", {(i + 1) * kHidden}), Ints("a", {2})}, 3);
      const int heads = Reshape(cut, {-1, kTokens, kHeads, kSize});
      part[i] = Open("Transpose", 13, {heads}, 4,
                     {{"perm", i == 1 ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 2, 1, 3}}});
    }
    int scores = Open("MatMul", 13, {part[0], part[1]}, 4);
    if (!m.bias.empty()) scores = Open("Add", 13, {scores, bias = Input("bias", m.bias)}, 4);
    windows = Input("windows", m.windows);
    const int apart = Reshape(scores, m.apart);
    masked = Open("Add", 13, m.windows_first ? std::vector<int>{windows, apart} : std::vector<int>{apart, windows}, 5);
    const int flat = Reshape(masked, {-1, kHeads, kTokens, kTokens});
    const int mixed = Open("MatMul", 13, {Open("Softmax", 13, {flat}, 4, {{"axis", int64_t{-1}}}), part[2]}, 4);
    const int turned = Open("Transpose", 13, {mixed}, 4, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    Output(Reshape(turned, {-1, kTokens, kHidden}));
  }
  int Reshape(int value, std::vector<int64_t> target) {
    const size_t rank = target.size();
    return Open("Reshape", 13, {value, Ints("target", std::move(target))}, rank);
  }
  const ir::Node* Find(const char* op) const {
    const auto found = std::ranges::find_if(graph.nodes, [&](const ir::Node& n) { return n.op_type == op; });
    return found == graph.nodes.end() ? nullptr : &*found;
  }

  int packed, bias = -1, windows, masked;
};

TEST(WindowsPassTest, MasksOfWindowsAreOneWithTheBias) {
  for (const bool windows_first : {false, true}) {
    WindowNet net({.windows_first = windows_first});
    net.Run();
    ASSERT_EQ(net.Operators(), (Ops{"Reshape", "Add", "Attention"}));
    const ir::Node& sum = net.node(1);
    EXPECT_EQ(net.node(0).inputs[0], net.windows);
    EXPECT_EQ(sum.inputs[1], net.bias);
    const auto& dims = *net.graph.value(sum.outputs[0]).dims;
    const int64_t wanted[] = {kWindows, kHeads, kTokens, kTokens};
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(dims[i].size, wanted[i]) << i;
    const ir::Node& attention = net.node(2);
    EXPECT_EQ(attention.inputs, (std::vector<int>{net.packed, -1, -1, sum.outputs[0]}));
    EXPECT_EQ(std::get<int64_t>(attention.attributes.at("mask_repeats")), 1);
    EXPECT_EQ(std::get<int64_t>(attention.attributes.at("empty_is_nan")), 1);
  }
}

TEST(WindowsPassTest, AMaskOfWindowsMayBeTheOnlyOne) {
  WindowNet net({.bias = {}, .windows = {{1}, {kWindows}, {kHeads}, {1}, {kTokens}}});
  net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"Reshape", "Attention"}));
  EXPECT_EQ(net.node(1).inputs[3], net.node(0).outputs[0]);
}

TEST(WindowsPassTest, OtherMasksStay) {
  const auto stays = [](const Masks& masks) {
    WindowNet net(masks);
    net.Run();
    EXPECT_EQ(net.Find("Attention"), nullptr);
    EXPECT_NE(net.Find("Softmax"), nullptr);
  };
  stays({.windows = {kBatch, {kWindows}, {1}, {kTokens}, {kTokens}}});        // another one for each image
  stays({.windows = {{1}, {1}, {1}, {kTokens}, {kTokens}}});                  // the same for all
  stays({.windows = {{1}, {kWindows}, {1}, {kUnknownDim, "t"}, {kTokens}}});  // of sizes that are not stated
  stays({.windows = {{1}, {kWindows}, {1}, {1}, {1}, {kTokens}}});            // of more dimensions
  stays({.bias = {kAllWindows, {1}, {1}, {kTokens}}});  // beside one for each window of each image
  stays({.windows = {{1}, {kHeads}, {1}, {kTokens}, {kTokens}}, .apart = {-1, kHeads, kWindows, kTokens, kTokens}});
}

TEST(WindowsPassTest, ScoresThatOthersReadStay) {
  WindowNet net;
  net.Output(net.masked);
  net.Run();
  EXPECT_EQ(net.Find("Attention"), nullptr);
}

}  // namespace
}  // namespace cudaep::graph
