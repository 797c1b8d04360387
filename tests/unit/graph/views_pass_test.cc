// Data that is moved about: parts of packed projections, rows of other orders, what comes to nothing.
#include <gtest/gtest.h>

#include <algorithm>

#include "decoder_net.h"

namespace cudaep::graph {
namespace {

constexpr int64_t kTokens = 10;
const std::vector<Dim> kPacked = {kBatch, kRows, {3 * kHidden}};

Settings ViewsAlone() {
  return Without({Fusion::kAttention, Fusion::kProjections, Fusion::kProductEpilogue, Fusion::kShortProducts});
}

struct Moves : Net {
  int Reshape(int value, std::vector<int64_t> target) {
    const size_t rank = target.size();
    return Open("Reshape", 13, {value, Ints("target", std::move(target))}, rank);
  }
  int Turn(int value, std::vector<int64_t> perm) {
    const size_t rank = perm.size();
    return Open("Transpose", 13, {value}, rank, {{"perm", std::move(perm)}});
  }
  int Pick(int value, int64_t at, int64_t axis, size_t rank) {
    ops::HostTensor index{.type = DataType::kInt64, .dims = {}, .data = std::vector<std::byte>(sizeof at)};
    std::memcpy(index.data.data(), &at, sizeof at);
    return Open("Gather", 13, {value, graph.AddConstant("at", std::move(index))}, rank - 1, {{"axis", axis}});
  }
  int Part(int value, int64_t begin, int64_t end, int64_t axis, size_t rank, int64_t step = 1) {
    return Open("Slice", 13, {value, Ints("b", {begin}), Ints("e", {end}), Ints("a", {axis}), Ints("s", {step})}, rank);
  }
  // Elements are read as they lie.
  int Read(int value) {
    const int read = Open("Relu", 13, {value}, graph.value(value).dims->size());
    Output(read);
    return read;
  }
  std::vector<int64_t> IntsOf(int value) const {
    const ops::TensorView& view = graph.value(value).constant;
    const auto numbers = view.host<int64_t>();
    return {numbers.begin(), numbers.end()};
  }
  std::vector<int64_t> PermOf(size_t index) const {
    return std::get<std::vector<int64_t>>(node(index).attributes.at("perm"));
  }
};

TEST(ViewsPassTest, OrdersOneAfterTheOtherAreOne) {
  Moves net;
  const int x = net.Input("x", {kBatch, {4}, kRows, {6}});
  net.Read(net.Turn(net.Turn(x, {0, 2, 1, 3}), {1, 0, 2, 3}));
  net.Run(ViewsAlone());
  ASSERT_EQ(net.Operators(), (Ops{"Transpose", "Relu"}));
  EXPECT_EQ(net.PermOf(0), (std::vector<int64_t>{2, 0, 1, 3}));
}

TEST(ViewsPassTest, WhatComesToNothingGoes) {
  Moves net;
  const int x = net.Input("x", {kBatch, {4}, kRows, {6}});
  const int there = net.Reshape(net.Turn(x, {0, 2, 1, 3}), {0, 0, 24});
  net.Read(net.Turn(net.Reshape(there, {0, 0, 4, 6}), {0, 2, 1, 3}));
  const auto notes = net.Run(ViewsAlone());
  ASSERT_EQ(net.Operators(), Ops{"Relu"});
  EXPECT_EQ(net.node(0).inputs[0], x);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].fusion, Fusion::kViews);
  EXPECT_TRUE(notes[0].missed.empty());
}

TEST(ViewsPassTest, PadsOfNothingAndWholeSlicesGo) {
  // Windows of an image: put back together, and cut to what the image had before it was padded.
  Moves net;
  const int x = net.Input("x", {kBatch, {8}, {6}, {4}});
  const auto pad = [&](int value, std::vector<int64_t> pads) {
    return net.Open("Pad", 13, {value, net.Ints("pads", std::move(pads))}, 4);
  };
  const int apart = net.Reshape(pad(x, std::vector<int64_t>(8)), {-1, 4, 2, 3, 2, 4});
  const int whole = net.Reshape(net.Turn(net.Turn(apart, {0, 1, 3, 2, 4, 5}), {0, 1, 3, 2, 4, 5}), {-1, 8, 6, 4});
  net.Read(net.Part(net.Part(whole, 0, 8, 1, 4), 0, INT64_MAX, 2, 4));
  net.Run(ViewsAlone());
  ASSERT_EQ(net.Operators(), Ops{"Relu"});
  EXPECT_EQ(net.node(0).inputs[0], x);
  Moves kept;
  const int y = kept.Input("x", {kBatch, {8}, {6}, {4}});
  kept.Read(kept.Open("Pad", 13, {y, kept.Ints("pads", {0, 0, 1, 0, 0, 0, 0, 0})}, 4));
  kept.Read(kept.Open("Pad", 13, {y, kept.Ints("pads", {0, 0, 1, 0, 0, 0, -1, 0})}, 4));
  kept.Run(ViewsAlone());
  EXPECT_EQ(kept.Operators(), (Ops{"Pad", "Relu", "Pad", "Relu"}));
}

// [batch, rows, 3, heads, size]: the position taken first or last, by either operator.
void TakePart(bool turned_first, bool gathers, int64_t heads, const Dim& batch) {
  Moves net;
  const int x = net.Input("x", {batch, kRows, {3 * kHidden}});
  const int apart = net.Reshape(x, {0, 0, 3, heads, kHidden / heads});
  const auto one = [&](int value, int64_t axis) {
    if (gathers) return net.Pick(value, -1, axis, 5);
    return net.Open("Squeeze", 13, {net.Part(value, 2, INT64_MAX, axis, 5), net.Ints("axis", {axis})}, 4);
  };
  net.Read(turned_first ? one(net.Turn(apart, {2, 0, 3, 1, 4}), 0) : net.Turn(one(apart, 2), {0, 2, 1, 3}));
  net.Run(ViewsAlone());
  ASSERT_EQ(net.Operators(), (Ops{"Slice", "Reshape", "Transpose", "Relu"}));
  EXPECT_EQ(net.node(0).inputs[0], x);
  EXPECT_EQ(net.IntsOf(net.node(0).inputs[1]), std::vector<int64_t>{2 * kHidden});
  EXPECT_EQ(net.IntsOf(net.node(0).inputs[2]), std::vector<int64_t>{3 * kHidden});
  EXPECT_EQ(net.IntsOf(net.node(0).inputs[3]), std::vector<int64_t>{2});
  const std::vector<int64_t> target = net.IntsOf(net.node(1).inputs[1]);
  EXPECT_EQ(target, (std::vector<int64_t>{batch.known() ? batch.size : 0, 0, heads, kHidden / heads}));
  EXPECT_EQ(net.PermOf(2), (std::vector<int64_t>{0, 2, 1, 3}));
}

TEST(ViewsPassTest, PartsOfAPackedTensorAreTakenWhereItLies) {
  for (const bool turned_first : {false, true}) {
    for (const bool gathers : {false, true}) {
      TakePart(turned_first, gathers, kHeads, kBatch);
      TakePart(turned_first, gathers, 1, kBatch);
      TakePart(turned_first, gathers, kHeads, {1});
    }
  }
}

TEST(ViewsPassTest, WhatIsReadInBetweenStays) {
  Moves net;
  const int x = net.Input("x", {kBatch, {4}, kRows, {6}});
  const int once = net.Turn(x, {0, 2, 1, 3});
  net.Read(once);
  net.Read(net.Turn(once, {1, 0, 2, 3}));
  net.Run(ViewsAlone());
  EXPECT_EQ(net.Operators(), (Ops{"Transpose", "Relu", "Transpose", "Relu"}));
  Moves leaving;
  const int y = leaving.Turn(leaving.Input("x", {kBatch, {4}, {6}}), {0, 2, 1});
  leaving.Output(y);
  leaving.Output(leaving.Turn(y, {0, 2, 1}));
  leaving.Run(ViewsAlone());
  EXPECT_EQ(leaving.Operators(), (Ops{"Transpose", "Transpose"}));
}

TEST(ViewsPassTest, WhatIsNoViewOfOneTensorStays) {
  const auto stays = [](auto&& build, size_t nodes) {
    Moves net;
    const int x = net.Input("x", kPacked);
    net.Read(build(net, net.Turn(net.Reshape(x, {0, 0, 3, kHeads, kSize}), {0, 1, 3, 2, 4})));
    const Ops before = net.Operators();
    net.Run(ViewsAlone());
    EXPECT_EQ(net.Operators(), before);
    EXPECT_EQ(before.size(), nodes + 3);
  };
  // Cut inside of a root's axis, in steps, at a position that is not known; into dimensions that cross others.
  stays([](Moves& net, int y) { return net.Part(y, 0, 1, 2, 5); }, 1);
  stays([](Moves& net, int y) { return net.Part(y, 0, 3, 3, 5, 2); }, 1);
  stays(
      [](Moves& net, int y) {
        return net.Open("Gather", 13, {y, net.Input("i", {{1}})}, 5, {{"axis", int64_t{3}}});
      },
      1);
  stays([](Moves& net, int y) { return net.Turn(net.Reshape(y, {0, 0, 4, 6}), {0, 1, 3, 2}); }, 2);
}

TEST(ViewsPassTest, TargetsThatNeedArithmeticStay) {
  // Of [heads, rows, batch, size] to [heads * rows, batch, size]: 0 and -1 do not say that.
  Moves net;
  const int x = net.Input("x", {kBatch, kRows, {kHeads}, {kSize}});
  net.Read(net.Turn(net.Reshape(net.Turn(x, {0, 2, 1, 3}), {0, -1, kSize}), {1, 0, 2}));
  net.Run(ViewsAlone());
  EXPECT_EQ(Count(net, "Transpose"), 2);
  Moves unstated;
  const int y = unstated.Value("y", {});
  unstated.graph.value(y).dims.reset();
  unstated.graph.value(y).input = 0;
  unstated.graph.inputs.push_back(y);
  unstated.Read(unstated.Turn(unstated.Turn(y, {1, 0, 2}), {0, 2, 1}));
  unstated.Run(ViewsAlone());
  EXPECT_EQ(Count(unstated, "Transpose"), 2);
}

// As TorchScript writes nn.MultiheadAttention: tokens first inside.
struct TokensFirst : Moves {
  TokensFirst() {
    x = Input("x", {kBatch, {kTokens}, {kHidden}});
    const int rows = Turn(x, {1, 0, 2});
    const int whole =
        Op("Add", {Constant("b", {3 * kHidden}), Op("MatMul", {rows, Constant("w", {kHidden, 3 * kHidden})})});
    const int apart = Reshape(whole, {kTokens, -1, 3, kHidden});
    const int ahead = Open("Unsqueeze", 13, {apart, Ints("i", {0})}, 5);
    const int packed = Open("Squeeze", 13, {Turn(ahead, {3, 1, 2, 0, 4}), Ints("i", {3})}, 4);
    int heads[3];
    for (int64_t i = 0; i < 3; ++i) {
      const int flat = Reshape(Pick(packed, i, 0, 4), {kTokens, -1, kSize});
      heads[i] = Reshape(Turn(flat, {1, 0, 2}), {-1, kHeads, kTokens, kSize});
    }
    const int scores =
        Open("Mul", 13, {Open("MatMul", 13, {heads[0], Turn(heads[1], {0, 1, 3, 2})}, 4), Scalar(0.5f)}, 4);
    const int mixed = Open("MatMul", 13, {Open("Softmax", 13, {scores}, 4, {{"axis", int64_t{-1}}}), heads[2]}, 4);
    const int flat = Reshape(Turn(mixed, {2, 0, 1, 3}), {-1, kHidden});
    const int product = Open("Gemm", 13, {flat, Constant("w", {kHidden, kHidden}), Constant("b", {kHidden})}, 2,
                             {{"transB", int64_t{1}}});
    const int back = Reshape(product, {kTokens, -1, kHidden});
    Output(Op("Add", {Turn(back, {1, 0, 2}), x}));
  }
  int x;
};

TEST(ViewsPassTest, AttentionOfTokensFirstMovesNothing) {
  TokensFirst net;
  net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"MatMul", "Attention", "MatMul"}));
  EXPECT_EQ(net.node(0).inputs[0], net.x);
  EXPECT_EQ(net.node(1).inputs[0], net.node(0).outputs[0]);
  EXPECT_EQ(net.node(1).inputs[1], -1);
  EXPECT_EQ(net.node(2).inputs[0], net.node(1).outputs[0]);
  EXPECT_EQ(net.node(2).inputs[3], net.x);
}

TEST(ViewsPassTest, ProductsOfRowsStayWhereNothingIsGained) {
  {  // nobody turns the result
    Moves net;
    const int rows = net.Turn(net.Hidden("x"), {1, 0, 2});
    net.Read(net.Op("MatMul", {rows, net.Constant("w", {kHidden, kHidden})}));
    net.Run(ViewsAlone());
    EXPECT_EQ(net.Operators(), (Ops{"Transpose", "MatMul", "Relu"}));
  }
  {  // the result is turned, what the product reads is not
    Moves net;
    const int y = net.Op("MatMul", {net.Hidden("x"), net.Constant("w", {kHidden, kHidden})});
    net.Read(net.Turn(y, {1, 0, 2}));
    net.Run(ViewsAlone());
    EXPECT_EQ(net.Operators(), (Ops{"MatMul", "Transpose", "Relu"}));
  }
  {  // the right operand has rows of its own
    Moves net;
    const int rows = net.Turn(net.Hidden("x"), {1, 0, 2});
    net.Read(net.Turn(net.Op("MatMul", {rows, net.Input("w", {kRows, {kHidden}, {kHidden}})}), {1, 0, 2}));
    net.Run(ViewsAlone());
    EXPECT_EQ(net.Operators(), (Ops{"Transpose", "MatMul", "Transpose", "Relu"}));
  }
}

TEST(ViewsPassTest, AGemmOfRowsThatAreOneDimensionTakesThemAsTheyAre) {
  const auto gemm = [](ops::Attributes attributes, bool matrix) {
    Moves net;
    const int x = net.Input("x", {kBatch, {kTokens}, {kHidden}});
    const int c = matrix ? net.Input("c", {{kTokens}, {kHidden}}) : net.Constant("c", {kHidden});
    const int flat = net.Reshape(x, {-1, kHidden});
    const int y = net.Open("Gemm", 13, {flat, net.Constant("w", {kHidden, kHidden}), c}, 2, std::move(attributes));
    net.Read(net.Reshape(y, {-1, kTokens, kHidden}));
    net.Run(ViewsAlone());
    return net.Operators();
  };
  EXPECT_EQ(gemm({{"transB", int64_t{1}}, {"alpha", 2.0f}}, false), (Ops{"MatMul", "Relu"}));
  const Ops stays = {"Reshape", "Gemm", "Reshape", "Relu"};
  EXPECT_EQ(gemm({{"beta", 0.5f}}, false), stays);
  EXPECT_EQ(gemm({}, true), stays);
}

// Of an index of two dimensions the result has one more, and what leaves would be copied twice.
TEST(ViewsPassTest, PositionsThatAreNoParts) {
  Moves net;
  const int x = net.Input("x", {kBatch, {4}, {6}});
  ops::HostTensor index{.type = DataType::kInt64, .dims = {1, 1}, .data = std::vector<std::byte>(sizeof(int64_t))};
  net.Read(net.Open("Gather", 13, {x, net.graph.AddConstant("at", std::move(index))}, 4, {{"axis", int64_t{1}}}));
  net.Output(net.Pick(x, 0, 1, 3));
  net.Output(net.Open("Gather", 13, {x, net.Ints("at", {0})}, 3, {{"axis", int64_t{1}}}));
  const int open = net.Input("z", {kBatch, kRows, {6}});
  net.Read(net.Open("Gather", 13, {open, net.Ints("at", {0})}, 3, {{"axis", int64_t{1}}}));  // there may be none
  net.Run(ViewsAlone());
  EXPECT_EQ(net.Operators(), (Ops{"Gather", "Relu", "Gather", "Slice", "Gather", "Relu"}));
}

// One position by its number is a part: of an axis whose size nobody knows the first alone, as what is beyond the end
// is Gather's error and nothing to Slice.
TEST(ViewsPassTest, OnePositionIsAPart) {
  for (const bool is_known : {false, true}) {
    for (const int64_t at : {0, -1, 3, 4, -5}) {
      Moves net;
      const int x = net.Input("x", {kBatch, is_known ? Dim{4} : kRows, {6}});
      net.Read(net.Pick(x, at, 1, 3));
      net.Run(ViewsAlone());
      if (at != 0 && (!is_known || at == 4 || at == -5)) {
        EXPECT_EQ(net.Operators(), (Ops{"Gather", "Relu"})) << at;
        continue;
      }
      ASSERT_EQ(net.Operators(), (Ops{"Slice", "Squeeze", "Relu"})) << at;
      EXPECT_EQ(net.IntsOf(net.node(0).inputs[1]), std::vector<int64_t>{at});
      EXPECT_EQ(net.IntsOf(net.node(0).inputs[2]), std::vector<int64_t>{at == -1 ? INT64_MAX : at + 1});
      EXPECT_EQ(net.IntsOf(net.node(0).inputs[3]), std::vector<int64_t>{1});
      EXPECT_EQ(net.IntsOf(net.node(1).inputs[1]), std::vector<int64_t>{1});
    }
  }
}

}  // namespace
}  // namespace cudaep::graph
