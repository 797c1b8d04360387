// Shape arithmetic that is followed, element by element, to the dimensions that are made of it.
#include "graph/ir/elements.h"

#include <gtest/gtest.h>

#include "graph/ir/dims.h"
#include "transformer_net.h"

namespace cudaep::graph {
namespace {

// x of [symbol, 8] as another node reshapes it to what shape arithmetic makes of its dimensions.
struct ElementsNet : Net {
  explicit ElementsNet(const char* name = "rows") { x = Input("x", {{kUnknownDim, ir::SymbolOf(name)}, {8}}); }
  int Rows() { return OnHost("Slice", 13, {OnHost("Shape", 13, {x}, 1), Ints("i", {0}), Ints("i", {1})}, 1); }
  int Cast(int value, DataType to) {
    const int cast = OnHost("Cast", 13, {value}, 1, {{"to", int64_t{0}}});
    graph.value(cast).type = to;
    return cast;
  }
  // The first dimension of x as [count, -1].
  Dim Reshaped(int count) {
    const int target = OnHost("Concat", 13, {count, Ints("i", {-1})}, 1, {{"axis", int64_t{0}}});
    const int y = Open("Reshape", 13, {x, target}, 2);
    ir::StateDims(graph);
    return graph.value(y).dims->front();
  }

  int x;
};

TEST(ElementsTest, ATargetIsReadAsTheDimensionsThatItWasMadeOf) {
  ElementsNet net;
  const Dim dim = net.Reshaped(net.Rows());
  EXPECT_TRUE(dim.Equals(net.graph.value(net.x).dims->front()));
}

TEST(ElementsTest, CastsThatMayChangeANumberAreNotFollowed) {
  for (const DataType narrow : {DataType::kInt32, DataType::kBool}) {
    ElementsNet net;
    const Dim dim = net.Reshaped(net.Cast(net.Cast(net.Rows(), narrow), DataType::kInt64));
    EXPECT_FALSE(dim.Equals(net.graph.value(net.x).dims->front()));
  }
}

TEST(ElementsTest, NumbersAreCastAsTheTypeHasThem) {
  const auto size = [](int64_t number, DataType narrow) {
    ElementsNet net;
    return net.Reshaped(net.Cast(net.Cast(net.Ints("number", {number}), narrow), DataType::kInt64)).size;
  };
  EXPECT_EQ(size(4, DataType::kInt32), 4);
  EXPECT_EQ(size(4, DataType::kBool), 1);
  EXPECT_EQ(size((int64_t{1} << 32) + 4, DataType::kInt32), kUnknownDim);
}

TEST(ElementsTest, NamesAreNeitherNumbersNorProducts) {
  for (const char* const name : {"10", "0", "2*rows", "rows*2", "#0", "'", "*"}) {
    ElementsNet net(name);
    const Dim dim = net.Reshaped(net.Rows());
    EXPECT_FALSE(dim.known()) << name;
    EXPECT_TRUE(dim.Equals(net.graph.value(net.x).dims->front())) << name;
  }
}

TEST(ElementsTest, AProductIsNoNameAndNamesStayApart) {
  ElementsNet net;
  net.Input("named", {{kUnknownDim, ir::SymbolOf("2*rows")}});
  const int twice = net.OnHost("Mul", 13, {net.Rows(), net.Ints("i", {2})}, 1);
  const Dim dim = net.Reshaped(twice);
  EXPECT_EQ(dim.symbol, "2*rows");
  EXPECT_FALSE(dim.Equals(net.graph.value(net.graph.inputs[1]).dims->front()));
  EXPECT_NE(ir::SymbolOf("a*b"), ir::SymbolOf("a'xb"));
  EXPECT_NE(ir::SymbolOf("'a"), ir::SymbolOf("''a"));
}

// What TorchScript makes of F.pad: pairs from the last axis on, turned round.
TEST(ElementsTest, PadsThatAreTurnedRoundAreFollowed) {
  ElementsNet net;
  const int x = net.Input("image", {{kUnknownDim, "batch"}, {12}, {20}});
  const auto size = [&](int64_t axis) {
    return net.OnHost("Gather", 13, {net.OnHost("Shape", 13, {x}, 1), net.Ints("axis", {axis})}, 1);
  };
  const auto missing = [&](int64_t axis) {  // up to whole windows of 7
    const int seven = net.Ints("window", {7});
    const int rest = net.OnHost("Mod", 13, {size(axis), seven}, 1);
    return net.OnHost("Mod", 13, {net.OnHost("Sub", 13, {seven, rest}, 1), seven}, 1);
  };
  const int zero = net.Ints("zero", {0});
  const int pairs =
      net.OnHost("Concat", 13, {zero, missing(2), zero, missing(1), zero, zero}, 1, {{"axis", int64_t{0}}});
  const int table = net.OnHost("Reshape", 13, {pairs, net.Ints("target", {-1, 2})}, 2);
  const int back =
      net.OnHost("Slice", 13,
                 {table, net.Ints("b", {-1}), net.Ints("e", {-INT64_MAX}), net.Ints("a", {0}), net.Ints("s", {-1})}, 2);
  const int turned = net.OnHost("Transpose", 13, {back}, 2, {{"perm", std::vector<int64_t>{1, 0}}});
  const int pads = net.OnHost("Reshape", 13, {turned, net.Ints("target", {-1})}, 1);
  const int y = net.Open("Pad", 13, {x, pads}, 3);
  const auto known = ir::StateDims(net.graph);
  const auto& elements = known[static_cast<size_t>(pads)];
  ASSERT_TRUE(elements);
  const int64_t wanted[] = {0, 0, 0, 0, 2, 1};
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ((*elements)[i], ir::Number(wanted[i])) << i;
  EXPECT_EQ(net.graph.value(y).dims->at(1).size, 14);
  EXPECT_EQ(net.graph.value(y).dims->at(2).size, 21);
}

TEST(ElementsTest, TablesAreCutAlongEitherAxis) {
  const auto cut = [](int64_t axis, int64_t begin, int64_t end, int64_t step) {
    ElementsNet net;
    const int table = net.OnHost("Reshape", 13, {net.Ints("x", {1, 2, 3, 4, 5, 6}), net.Ints("t", {2, 3})}, 2);
    const int part = net.OnHost(
        "Slice", 13,
        {table, net.Ints("b", {begin}), net.Ints("e", {end}), net.Ints("a", {axis}), net.Ints("s", {step})}, 2);
    const auto known = ir::StateDims(net.graph);
    std::vector<int64_t> numbers;
    for (const ir::Element& element : *known[static_cast<size_t>(part)]) numbers.push_back(element.number);
    return numbers;
  };
  using Numbers = std::vector<int64_t>;
  EXPECT_EQ(cut(0, 1, 2, 1), (Numbers{4, 5, 6}));
  EXPECT_EQ(cut(-1, 0, 3, 2), (Numbers{1, 3, 4, 6}));
  EXPECT_EQ(cut(1, -1, -4, -1), (Numbers{3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(cut(0, 5, 9, 1), Numbers{});
}

TEST(ElementsTest, WhatElsePutsTablesTogetherIsNotFollowed) {
  ElementsNet net;
  const int table = net.OnHost("Reshape", 13, {net.Ints("x", {1, 2, 3, 4}), net.Ints("t", {2, 2})}, 2);
  const int nodes[] = {
      net.OnHost("Concat", 13, {table, table}, 2, {{"axis", int64_t{1}}}),
      net.OnHost("Gather", 13, {table, net.Ints("i", {0})}, 2, {{"axis", int64_t{1}}}),
      net.OnHost("Add", 13, {table, net.Ints("i", {1, 2})}, 2),
  };
  const auto known = ir::StateDims(net.graph);
  for (const int value : nodes) EXPECT_FALSE(known[static_cast<size_t>(value)]) << value;
}

TEST(ElementsTest, RemaindersAreNumbersWhereTheyAreKnown) {
  ElementsNet net;
  const int rows = net.Rows();
  const auto mod = [&](int a, int64_t b) { return net.OnHost("Mod", 13, {a, net.Ints("b", {b})}, 1); };
  const int known_rest = mod(net.Ints("a", {17}), 7),
            exact = mod(net.OnHost("Mul", 13, {rows, net.Ints("i", {14})}, 1), 7);
  const int open = mod(rows, 7), negative = mod(net.Ints("a", {-3}), 7), by_zero = mod(net.Ints("a", {3}), 0);
  const auto known = ir::StateDims(net.graph);
  const auto of = [&](int value) { return known[static_cast<size_t>(value)]->front(); };
  EXPECT_EQ(of(known_rest), ir::Number(3));
  EXPECT_EQ(of(exact), ir::Number(0));
  EXPECT_TRUE(of(open).known);
  EXPECT_FALSE(of(open).is_number());
  EXPECT_FALSE(of(negative).known);
  EXPECT_FALSE(of(by_zero).known);
}

TEST(ElementsTest, FloorsOfFloorsAreOne) {
  ir::Symbols symbols;
  const ir::Element x{true, 1, {"x"}};
  // Convolutions of 10, 3 and 3 taps, 5, 2 and 2 apart, and what comes of them in one step: x / 20 - 1.
  ir::Element windows = x;
  for (const auto& [taps, stride] : {std::pair{10, 5}, {3, 2}, {3, 2}}) {
    windows = symbols.Floor(windows, stride - taps, stride, true);
    EXPECT_TRUE(windows.not_negative());
  }
  EXPECT_EQ(symbols.Floor(symbols.Floor(x, 0, 20), -1, 1), windows);
  EXPECT_EQ(symbols.Sum(ir::Number(1), windows), symbols.Floor(x, 0, 20));
  EXPECT_NE(symbols.Floor(x, 0, 20), windows);
  EXPECT_EQ(symbols.Floor(symbols.Floor(x, 3, 1), -3, 1), x);
  EXPECT_EQ(symbols.Floor(ir::Times(ir::Number(6), x), 1, 3), ir::Times(ir::Number(2), x));
  EXPECT_EQ(symbols.Floor(ir::Number(11), -1, 3), ir::Number(3));
  EXPECT_FALSE(symbols.Floor(ir::Number(2), -3, 1).known);
  EXPECT_FALSE(symbols.Floor({}, 0, 2).known);
  EXPECT_FALSE(symbols.Sum({}, x).known);
  EXPECT_FALSE(symbols.Sum(ir::Number(3), {}).known);
  ir::Element many = x;
  for (int i = 0; i < 8; ++i) many = ir::Times(many, many);
  EXPECT_FALSE(many.known);
  const int64_t large = int64_t{1} << 62;
  EXPECT_FALSE(symbols.Floor(symbols.Floor(x, 0, large), 0, 4).known);
}

// x - 3 may be negative, unless something has that size.
TEST(ElementsTest, WhatMayBeNegativeIsNoSize) {
  ir::Symbols symbols;
  const ir::Element x{true, 1, {"x"}}, less = symbols.Floor(x, -3, 1);
  EXPECT_TRUE(less.known);
  EXPECT_FALSE(less.not_negative());
  EXPECT_FALSE(ir::Times(less, x).not_negative());
  EXPECT_TRUE(ir::Symbols::DimOf(less).symbol.empty());
  EXPECT_EQ(symbols.Sum(less, ir::Number(3)), x);
  EXPECT_FALSE(symbols.TakeNews());
  EXPECT_TRUE(symbols.Floor(x, -3, 1, true).not_negative());
  EXPECT_TRUE(symbols.TakeNews());
  EXPECT_FALSE(symbols.TakeNews());
  EXPECT_TRUE(symbols.Floor(x, -3, 1).not_negative());
}

struct AheadNet : Net {
  AheadNet() {
    signal = Input("signal", {{1}, {3}, {kUnknownDim, "samples"}});
    samples = OnHost("Gather", 13, {OnHost("Shape", 15, {signal}, 1), Index(2)}, 0);
  }
  // x as [size, -1].
  int Rows(int size) {
    const int vector = OnHost("Unsqueeze", 13, {size, Ints("i", {0})}, 1);
    return Open("Reshape", 14,
                {Hidden("x"), OnHost("Concat", 13, {vector, Ints("i", {-1})}, 1, {{"axis", int64_t{0}}})}, 2);
  }
  int Windows(int64_t taps, int64_t stride) {
    return Open("Conv", 11, {signal, Constant("w", {8, 3, taps})}, 3, {{"strides", std::vector<int64_t>{stride}}});
  }
  int Cut(int of, int64_t begin, int64_t end) {
    return Open("Slice", 13, {of, Ints("b", {begin}), Ints("e", {end}), Ints("a", {2})}, 3);
  }
  Dim RowsOf(int value) const { return graph.value(value).dims->front(); }
  Dim CountOf(int value) const { return graph.value(value).dims->back(); }

  int signal, samples;
};

// (samples - 7) / 4, which may be negative, is as many as windows of 11 four apart, and one less than those of 7.
TEST(ElementsTest, SizesAheadOfWhatHasThem) {
  for (const int64_t stride : {4, 2}) {
    AheadNet net;
    const int frames = net.OnHost("Div", 14, {net.OnHost("Sub", 14, {net.samples, net.Index(7)}, 0), net.Index(4)}, 0);
    const int y = net.Rows(frames), windows = net.Windows(11, stride), others = net.Windows(7, stride);
    const int first = net.Cut(others, 0, -1), last = net.Cut(others, 1, INT64_MAX),
              fewer = net.Cut(windows, 1, INT64_MAX);
    ir::StateDims(net.graph);
    EXPECT_EQ(net.RowsOf(y).Equals(net.CountOf(windows)), stride == 4);
    EXPECT_EQ(net.CountOf(first).Equals(net.CountOf(windows)), stride == 4);
    EXPECT_EQ(net.CountOf(last).Equals(net.CountOf(windows)), stride == 4);
    EXPECT_FALSE(net.CountOf(windows).Equals(net.CountOf(others)));
    EXPECT_FALSE(net.CountOf(windows).Equals(net.CountOf(fewer)));
  }
}

// (samples - 3) / 2 + 2 of two samples is 2, and 1 rounded down.
TEST(ElementsTest, WhatMayBeNegativeIsCutOffTowardsZero) {
  for (const bool is_there : {false, true}) {
    AheadNet net;
    const int half = net.OnHost("Div", 14, {net.OnHost("Sub", 14, {net.samples, net.Index(3)}, 0), net.Index(2)}, 0);
    const int y = net.Rows(net.OnHost("Add", 14, {half, net.Index(2)}, 0));
    const int other =
        net.Rows(net.OnHost("Div", 14, {net.OnHost("Add", 14, {net.samples, net.Index(1)}, 0), net.Index(2)}, 0));
    if (is_there) net.Windows(5, 2);  // (samples - 5) / 2 + 1 of them, for which there are enough samples
    ir::StateDims(net.graph);
    EXPECT_EQ(net.RowsOf(y).Equals(net.RowsOf(other)), is_there);
  }
}

// One condition for three numbers.
TEST(ElementsTest, ChoicesAreAsLongAsTheLongest) {
  Net net;
  const int x = net.Input("x", {{8}, {3}});
  const int one = net.OnHost("Slice", 13, {net.OnHost("Shape", 15, {x}, 1), net.Ints("i", {1}), net.Ints("i", {2})}, 1);
  const int other = net.Open("Equal", 13, {one, net.Ints("n", {-1})}, 1);
  net.graph.value(other).type = DataType::kBool;
  const int y = net.Open("Reshape", 14,
                         {x, net.OnHost("Where", 9, {other, net.Ints("a", {4, 6, 1}), net.Ints("b", {24})}, 1)}, 3);
  ir::StateDims(net.graph);
  for (const Dim& dim : *net.graph.value(y).dims) EXPECT_EQ(dim.size, 24);
}

TEST(ElementsTest, TheLeastNumberIsNotTakenAway) {
  AheadNet net;
  const int y = net.Rows(net.OnHost("Sub", 14, {net.samples, net.Index(INT64_MIN)}, 0));
  ir::StateDims(net.graph);
  EXPECT_FALSE(net.RowsOf(y).known());
  EXPECT_TRUE(net.RowsOf(y).symbol.starts_with('#'));
}

}  // namespace
}  // namespace cudaep::graph
