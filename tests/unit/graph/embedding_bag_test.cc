// Loops over bags, by their bodies, and lookups that become part of what reduces segments.
#include <gtest/gtest.h>

#include "graph/pass/pass.h"
#include "graph/pass/segment_match.h"
#include "graph_builder.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using ir::Dim;
using Inputs = std::vector<int>;

constexpr int64_t kWidth = 16;
const Dim kWords{50}, kIndices{kUnknownDim, "indices"}, kBags{kUnknownDim, "bags"}, kBounds{kUnknownDim, "bounds"};

struct BagNet : Builder {
  explicit BagNet(DataType element = DataType::kFloat) : Builder(element) {
    table = Input("table", {kWords, {kWidth}});
    indices = List("indices", kIndices), bounds = List("bounds", kBounds);
    count = List("count", {1}), weights = Input("weights", {kIndices});
  }
  int List(const char* name, Dim size) {
    const int value = Input(name, {std::move(size)});
    graph.value(value).type = DataType::kInt64;
    return value;
  }
  int Gather(int64_t axis = 0) { return Add("Gather", 13, {table, indices}, {kIndices, {kWidth}}, {{"axis", axis}}); }
  int Weighted(int rows, int of, int64_t axis = 1) {
    const int wide = Add("Unsqueeze", 13, {of, Ints("axes", {axis})}, {kIndices, {1}});
    return Add("Mul", 14, {rows, wide}, {kIndices, {kWidth}});
  }
  int Reduce(int rows, int ends = -1, Inputs more = {}) {
    Inputs inputs = {rows, bounds, ends, count};
    inputs.insert(inputs.end(), more.begin(), more.end());
    const int y = Add("SegmentReduce", 1, std::move(inputs), {kBags, {kWidth}}, {{"reduction", std::string("sum")}});
    graph.nodes.back().domain = ops::kFusedDomain;
    return y;
  }
  int Next(int64_t from, int64_t to, int64_t step = 1) {
    const int ends =
        Add("Slice", 13, {bounds, Ints("from", {from}), Ints("to", {to}), Ints("axis", {0}), Ints("step", {step})},
            {kBags});
    graph.value(ends).type = DataType::kInt64;
    return ends;
  }
  std::vector<FusionNote> Run() { return RunPasses(graph, WithoutChains()); }
  Inputs Bag() const { return graph.nodes.back().inputs; }
  int table, indices, bounds, count, weights;
};

TEST(EmbeddingBagPassTest, LookupAndWeightsBecomePartOfIt) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBFloat16}) {
    for (const bool weighted : {false, true}) {
      BagNet net(type);
      const int rows = net.Gather();
      net.Output(net.Reduce(weighted ? net.Weighted(rows, net.weights) : rows));
      const std::vector<FusionNote> notes = net.Run();
      ASSERT_EQ(net.Operators(), Ops{"SegmentReduce"});
      Inputs wanted = {net.table, net.bounds, -1, net.count, -1, -1, net.indices};
      if (weighted) wanted.push_back(net.weights);
      EXPECT_EQ(net.Bag(), wanted);
      ASSERT_EQ(notes.size(), 1u);
      EXPECT_EQ(notes[0].fusion, Fusion::kEmbeddingBag);
      EXPECT_EQ(notes[0].sources.size(), weighted ? 4u : 2u);
    }
  }
}

TEST(EmbeddingBagPassTest, WeightsOfOneAreNone) {
  for (const bool is_one : {true, false}) {
    BagNet net;
    const int shape = net.Add("Shape", 13, {net.indices}, {{1}});
    net.graph.value(shape).type = DataType::kInt64;
    const int unit = net.Vector("unit", DataType::kFloat, std::vector<float>{is_one ? 1.f : 2.f});
    const int ones = net.Add("Expand", 13, {unit, shape}, {kIndices});
    net.Output(net.Reduce(net.Weighted(net.Gather(), ones)));
    net.Run();
    EXPECT_EQ(net.Bag().size(), is_one ? 7u : 8u);
  }
}

TEST(EmbeddingBagPassTest, EndsThatAreTheNextStarts) {
  for (const auto& [from, to, step, is_next] :
       {std::tuple{1, INT64_MAX, 1, true}, std::tuple{2, INT64_MAX, 1, false}, std::tuple{1, int64_t{5}, 1, false},
        std::tuple{1, INT64_MAX, 2, false}}) {
    BagNet net;
    net.Output(net.Reduce(net.table, net.Next(from, to, step)));
    net.Run();
    EXPECT_EQ(net.Bag()[2] < 0, is_next) << from << ' ' << to << ' ' << step;
  }
}

// Offsets and the number of indices, which the host knows, in one list.
TEST(EmbeddingBagPassTest, TheLastEndByItself) {
  enum { kShape, kViewOfShape, kInput };
  for (const int made_by : {kShape, kViewOfShape, kInput}) {
    BagNet net;
    const int offsets = net.List("offsets", kBags);
    const auto add = [&](const char* op, Inputs inputs, std::vector<Dim> dims) {
      const int value = net.Add(op, 13, std::move(inputs), std::move(dims), {{"axis", int64_t{0}}});
      net.graph.value(value).type = DataType::kInt64;
      return value;
    };
    int last = made_by == kInput ? net.List("last", {1}) : add("Shape", {net.indices}, {{1}});
    if (made_by != kInput) net.graph.nodes.back().on_host = true;
    if (made_by == kViewOfShape) {
      last = add("Gather", {last, net.Ints("zero", {0})}, {{1}});
      last = add("Unsqueeze", {add("Squeeze", {last}, {}), net.Ints("axis", {0})}, {{1}});
    }
    net.bounds = add("Concat", {offsets, last}, {kBounds});
    net.Output(net.Reduce(net.table));
    net.Run();
    const Inputs joined = {net.table, net.bounds, -1, net.count},
                 apart = {net.table, offsets, -1, net.count, -1, -1, -1, -1, last};
    EXPECT_EQ(net.Bag(), made_by == kInput ? joined : apart) << made_by;
    for (const ir::Node& node : net.graph.nodes)
      EXPECT_EQ(node.on_host, !node.Is("SegmentReduce", ops::kFusedDomain) && made_by != kInput);
  }
}

TEST(EmbeddingBagPassTest, WhatIsNoLookupStays) {
  {
    BagNet net;  // others read the rows
    const int rows = net.Gather();
    net.Output(rows);
    net.Output(net.Reduce(rows));
    net.Run();
    EXPECT_EQ(net.Bag().size(), 4u);
  }
  {
    BagNet net;  // along another axis
    net.Output(net.Reduce(net.Gather(1)));
    net.Run();
    EXPECT_EQ(net.Bag().size(), 4u);
  }
  {
    BagNet net;  // a weight for each column
    net.Output(net.Reduce(net.Weighted(net.Gather(), net.weights, 0)));
    net.Run();
    EXPECT_EQ(net.Bag().size(), 4u);
  }
}

// The body of TorchScript's exporter: piece = ReduceSum(Gather(table, Slice(indices, bounds[i], ends[i]))).
struct Body : Builder {
  Body() {
    for (int* value : {&trips, &iteration}) *value = Of(DataType::kInt64, {});
    for (int* value : {&yes, &goes_on}) *value = Of(DataType::kBool, {});
    table = Value("table", {kWords, {kWidth}});
    indices = Of(DataType::kInt64, {kIndices}), bounds = Of(DataType::kInt64, {kBounds});
    ends = Of(DataType::kInt64, {kBags}), axis = Ints("axis", {0});
  }
  int Of(DataType element, std::vector<Dim> dims) {
    return graph.AddValue({.name = "v", .type = element, .dims = std::move(dims)});
  }
  int Node(const char* op, Inputs inputs, std::vector<Dim> dims, DataType element, ops::Attributes attributes = {}) {
    const int value = Add(op, 13, std::move(inputs), std::move(dims), std::move(attributes));
    graph.value(value).type = element;
    return value;
  }
  int At(int list, int place) {
    const int element = Node("Gather", {list, place}, {}, DataType::kInt64, {{"axis", int64_t{0}}});
    return Node("Unsqueeze", {element, axis}, {{1}}, DataType::kInt64);
  }
  SegmentMatch Match(int place, const char* reduce = "ReduceSum", int64_t keepdims = 0) {
    const int part = Node("Slice", {indices, At(bounds, place), At(ends, place), axis}, {{}}, DataType::kInt64);
    const int rows = Add("Gather", 13, {table, part}, {{}, {kWidth}}, {{"axis", int64_t{0}}});
    const int piece = Add(reduce, 13, {rows, axis}, {{kWidth}}, {{"keepdims", keepdims}});
    graph.inputs = {iteration, goes_on};
    graph.outputs = {goes_on, piece};
    return MatchSegments({graph, {trips, -1}});
  }
  int trips, iteration, yes, goes_on, table, indices, bounds, ends, axis;
};

TEST(SegmentMatchTest, SaysWhatIsReduced) {
  for (const auto& [op, reduction] :
       {std::pair{"ReduceSum", "sum"}, std::pair{"ReduceMean", "mean"}, std::pair{"ReduceMax", "max"}}) {
    Body body;
    const SegmentMatch match = body.Match(body.iteration, op);
    ASSERT_TRUE(match.loop) << match.missed;
    EXPECT_STREQ(match.loop->reduction, reduction);
    EXPECT_EQ(match.loop->inputs(), (Inputs{body.table, body.bounds, body.ends, body.trips, -1, -1, body.indices, -1}));
    EXPECT_FALSE(match.loop->empty_is_zero || match.loop->gives_sequence);
  }
}

TEST(SegmentMatchTest, SaysWhatDiffers) {
  Body keeps;
  EXPECT_EQ(keeps.Match(keeps.iteration, "ReduceSum", 1).missed, "it does not reduce along the first axis alone");
  Body elsewhere;
  EXPECT_EQ(elsewhere.Match(elsewhere.trips).missed,
            "indices are not those between two elements of lists of positions");
  Body doubles;
  doubles.graph.value(doubles.table).type = DataType::kDouble;
  EXPECT_EQ(doubles.Match(doubles.iteration).missed, "rows are not of float32, float16 or bfloat16");
  Body other;  // nothing that is near
  const SegmentMatch match = other.Match(other.iteration, "ReduceProd");
  EXPECT_FALSE(match.loop);
  EXPECT_EQ(match.missed, "");
}

}  // namespace
}  // namespace cudaep::graph
