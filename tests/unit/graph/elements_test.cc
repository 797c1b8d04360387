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

}  // namespace
}  // namespace cudaep::graph
