// Parts of one tensor that are joined in another order: torch.roll, windows around it, positions in steps.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/registry.h"
#include "transformer_net.h"

namespace cudaep::graph {
namespace {

using Numbers = std::vector<int64_t>;

struct Joins : Net {
  int Reshape(int value, Numbers target) {
    const size_t rank = target.size();
    return Open("Reshape", 13, {value, Ints("target", std::move(target))}, rank);
  }
  int Turn(int value, Numbers perm) {
    const size_t rank = perm.size();
    return Open("Transpose", 13, {value}, rank, {{"perm", std::move(perm)}});
  }
  int Part(int value, int64_t begin, int64_t end, int64_t axis, int64_t step = 1) {
    return Open("Slice", 13, {value, Ints("b", {begin}), Ints("e", {end}), Ints("a", {axis}), Ints("s", {step})},
                graph.value(value).dims->size());
  }
  int Join(std::vector<int> parts, int64_t axis) {
    const size_t rank = graph.value(parts[0]).dims->size();
    return Open("Concat", 13, std::move(parts), rank, {{"axis", axis}});
  }
  int Roll(int value, int64_t shift, int64_t axis) {
    return Join({Part(value, shift, INT64_MAX, axis), Part(value, 0, shift, axis)}, axis);
  }
  int Read(int value) {
    const int read = Open("Relu", 13, {value}, graph.value(value).dims->size());
    Output(read);
    return read;
  }
  Numbers ListOf(size_t index, const char* name) const {
    return std::get<Numbers>(node(index).attributes.at(std::string(name)));
  }
  Ops Rewritten(Fusion without = Fusion::kChains) {
    Settings settings = WithoutChains();
    settings.fusion_skip.Add(without);
    Run(settings);
    return Operators();
  }
};

const std::vector<Dim> kImage = {kBatch, {12}, {8}, {4}};

TEST(JoinsPassTest, AxesThatAreMovedRoundAreOneCopyWithTheirWindows) {
  Joins net;
  const int x = net.Input("x", kImage);
  const int moved = net.Roll(net.Roll(x, 2, 1), 3, -2);
  const int apart = net.Turn(net.Reshape(moved, {-1, 3, 4, 2, 4, 4}), {0, 1, 3, 2, 4, 5});
  net.Read(net.Reshape(apart, {-1, 16, 4}));
  ASSERT_EQ(net.Rewritten(), (Ops{"Roll", "Relu"}));
  EXPECT_EQ(net.node(0).domain, ops::kFusedDomain);
  EXPECT_EQ(net.node(0).inputs, std::vector<int>{x});
  EXPECT_EQ(net.ListOf(0, "shifts"), (Numbers{0, 2, 3, 0}));
  EXPECT_EQ(net.ListOf(0, "dims"), (Numbers{-1, 12, 8, 4}));
  EXPECT_EQ(net.ListOf(0, "source_dims"), (Numbers{-1, 12, 8, 4}));
  EXPECT_EQ(net.ListOf(0, "target_dims"), (Numbers{-1, 3, 4, 2, 4, 4}));
  EXPECT_EQ(net.ListOf(0, "target_perm"), (Numbers{0, 1, 3, 2, 4, 5}));
  EXPECT_EQ(net.ListOf(0, "shape"), (Numbers{-1, 16, 4}));
}

TEST(JoinsPassTest, WindowsArePutTogetherAndMovedBackAtOnce) {
  Joins net;
  const int x = net.Input("x", {{kUnknownDim, "6*batch"}, {16}, {4}});
  const int turned = net.Turn(net.Reshape(x, {-1, 3, 2, 4, 4, 4}), {0, 1, 3, 2, 4, 5});
  const int back = net.Roll(net.Roll(net.Reshape(turned, {-1, 12, 8, 4}), -2, 1), -3, 2);
  net.Read(net.Part(net.Part(back, 0, 12, 1), 0, 8, 2));
  ASSERT_EQ(net.Rewritten(), (Ops{"Roll", "Relu"}));
  EXPECT_EQ(net.node(0).inputs, std::vector<int>{x});
  EXPECT_EQ(net.ListOf(0, "shifts"), (Numbers{0, 10, 5, 0}));
  EXPECT_EQ(net.ListOf(0, "source_dims"), (Numbers{-1, 3, 2, 4, 4, 4}));
  EXPECT_EQ(net.ListOf(0, "source_perm"), (Numbers{0, 1, 3, 2, 4, 5}));
  EXPECT_EQ(net.ListOf(0, "shape"), (Numbers{-1, 12, 8, 4}));
}

TEST(JoinsPassTest, SplitsAreMovedRoundToo) {
  Joins net;
  const int x = net.Input("x", kImage);
  const int first = net.Open("Split", 13, {x, net.Ints("sizes", {5, 7})}, 4, {{"axis", int64_t{1}}});
  const int second = net.Value("rest", std::vector<Dim>(4));
  net.graph.nodes.back().outputs.push_back(second);
  net.Read(net.Join({second, first}, 1));
  ASSERT_EQ(net.Rewritten(), (Ops{"Roll", "Relu"}));
  EXPECT_EQ(net.ListOf(0, "shifts"), (Numbers{0, 5, 0, 0}));
}

TEST(JoinsPassTest, OneAxisSeveralTimesIsOneShift) {
  Joins net;
  net.Read(net.Roll(net.Roll(net.Input("x", kImage), 7, 1), 8, 1));
  ASSERT_EQ(net.Rewritten(), (Ops{"Roll", "Relu"}));
  EXPECT_EQ(net.ListOf(0, "shifts"), (Numbers{0, 3, 0, 0}));
}

TEST(JoinsPassTest, WhatOthersReadIsMade) {
  Joins net;  // between the axes, of the windows in front, and of the result
  const int x = net.Input("x", {kBatch, {3}, {2}, {4}, {4}, {4}});
  const int image = net.Reshape(net.Turn(x, {0, 1, 3, 2, 4, 5}), {-1, 12, 8, 4});
  const int first = net.Roll(image, 2, 1);
  const int second = net.Roll(first, 3, 2);
  net.Read(image);
  net.Read(first);
  net.Read(second);
  net.Read(net.Turn(second, {0, 2, 1, 3}));
  Ops ops = net.Rewritten();
  EXPECT_EQ(std::ranges::count(ops, "Roll"), 2);
  EXPECT_EQ(std::ranges::count(ops, "Transpose"), 2);
  EXPECT_EQ(std::ranges::count(ops, "Slice") + std::ranges::count(ops, "Concat"), 0);
}

TEST(JoinsPassTest, OtherJoinsStay) {
  const auto stays = [](auto&& build, std::vector<Dim> dims = kImage) {
    Joins net;
    const int x = net.Input("x", std::move(dims));
    net.Read(build(net, x));
    const Ops before = net.Operators();
    EXPECT_EQ(net.Rewritten(), before);
  };
  stays([](Joins& n, int x) { return n.Join({n.Part(x, 0, 5, 1), n.Part(x, 5, 12, 1)}, 1); });  // as they were
  stays([](Joins& n, int x) { return n.Join({n.Part(x, 5, 12, 1), n.Part(x, 0, 4, 1)}, 1); });  // with a gap
  stays([](Joins& n, int x) { return n.Join({n.Part(x, 5, 12, 1), n.Part(x, 0, 6, 1)}, 1); });  // twice
  stays([](Joins& n, int x) { return n.Join({n.Part(x, 5, 11, 1), n.Part(x, 0, 5, 1)}, 1); });  // without the end
  stays([](Joins& n, int x) { return n.Join({n.Part(x, 4, 8, 2), n.Part(x, 0, 4, 2)}, 1); });   // along another axis
  stays([](Joins& n, int x) { return n.Join({n.Part(x, 5, 12, 1), n.Part(n.Input("y", kImage), 0, 5, 1)}, 1); });
  stays([](Joins& n, int x) { return n.Join({n.Part(x, 5, 12, 1), n.Part(x, 0, 5, 1), x}, 1); });
  stays([](Joins& n, int x) { return n.Roll(x, 3, 1); }, {kBatch, kRows, {8}});  // of a size that is not stated
  stays([](Joins& n, int x) { return n.Roll(x, 3, 2); }, {kBatch, kRows, {8}});  // two sizes that are not
}

TEST(JoinsPassTest, EveryPositionInStepsIsATranspose) {
  for (const bool channels_last : {true, false}) {
    for (const bool rows_first : {true, false}) {
      Joins net;
      const int64_t down = channels_last ? 1 : 2, along = down + 1, channels = channels_last ? 3 : 1;
      const int x = net.Input("x", channels_last ? kImage : std::vector<Dim>{kBatch, {4}, {12}, {8}});
      std::vector<int> parts;
      for (int64_t outer = 0; outer < 2; ++outer) {
        for (int64_t inner = 0; inner < 2; ++inner) {
          const int64_t row = rows_first ? outer : inner, column = rows_first ? inner : outer;
          parts.push_back(net.Part(net.Part(x, row, INT64_MAX, down, 2), column, INT64_MAX, along - 4, 2));
        }
      }
      net.Read(net.Join(parts, channels));
      ASSERT_EQ(net.Rewritten(), (Ops{"Reshape", "Transpose", "Reshape", "Relu"}));
      const Numbers last = rows_first ? Numbers{0, 1, 3, 2, 4, 5} : Numbers{0, 1, 3, 4, 2, 5};
      const Numbers first = rows_first ? Numbers{0, 3, 5, 1, 2, 4} : Numbers{0, 5, 3, 1, 2, 4};
      EXPECT_EQ(net.ListOf(1, "perm"), channels_last ? last : first);
      EXPECT_EQ(net.graph.value(net.node(2).outputs[0]).dims->at(static_cast<size_t>(channels)).size, 16);
    }
  }
}

// As a host writes what it takes apart: of the first axes.
TEST(JoinsPassTest, PartsWithoutAxes) {
  for (const bool in_steps : {false, true}) {
    Joins net;
    const int x = net.Input("x", {{6}, {8}, {4}});
    const auto part = [&](int64_t begin) {
      std::vector<int> inputs = {x, net.Ints("b", {0, begin}), net.Ints("e", {INT64_MAX, INT64_MAX})};
      if (in_steps) inputs.insert(inputs.end(), {-1, net.Ints("s", {1, 2})});
      return net.Open("Slice", 13, std::move(inputs), 3);
    };
    const int first = part(0), second = part(1);
    net.Read(net.Join({first, second}, 2));
    // Every second row, side by side, or all of them and all but the first.
    EXPECT_EQ(net.Rewritten(), in_steps ? (Ops{"Reshape", "Relu"}) : (Ops{"Slice", "Concat", "Relu"}));
  }
}

TEST(JoinsPassTest, OtherStepsStay) {
  const auto stays = [](auto&& build) {
    Joins net;
    const int x = net.Input("x", kImage);
    net.Read(build(net, x));
    const Ops before = net.Operators();
    EXPECT_EQ(net.Rewritten(), before);
  };
  const auto part = [](Joins& n, int x, int64_t begin, int64_t step) { return n.Part(x, begin, INT64_MAX, 1, step); };
  stays([&](Joins& n, int x) { return n.Join({part(n, x, 1, 2), part(n, x, 0, 2)}, 3); });                 // turned
  stays([&](Joins& n, int x) { return n.Join({part(n, x, 0, 2), part(n, x, 0, 2)}, 3); });                 // twice
  stays([&](Joins& n, int x) { return n.Join({part(n, x, 0, 3), part(n, x, 1, 3)}, 3); });                 // not all
  stays([&](Joins& n, int x) { return n.Join({part(n, x, 0, 2), part(n, x, 1, 2)}, 1); });                 // along it
  stays([&](Joins& n, int x) { return n.Join({part(n, x, 2, 2), part(n, x, 1, 2)}, 3); });                 // later on
  stays([&](Joins& n, int x) { return n.Join({n.Part(x, 0, 8, 1, 2), n.Part(x, 1, 8, 1, 2)}, 3); });       // a part
  stays([&](Joins& n, int x) { return n.Join({n.Part(x, -1, INT64_MIN, 1, -2), part(n, x, 0, 2)}, 3); });  // backwards
}

TEST(JoinsPassTest, TheyHaveAName) {
  Joins net;
  net.Read(net.Roll(net.Input("x", kImage), 2, 1));
  EXPECT_EQ(net.Rewritten(Fusion::kJoins), (Ops{"Slice", "Slice", "Concat", "Relu"}));
}

}  // namespace
}  // namespace cudaep::graph
