// Embeddings of tokens as exporters write them.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/registry.h"
#include "transformer_net.h"

namespace cudaep::graph {
namespace {

struct TokenNet : Net {
  explicit TokenNet(DataType element = DataType::kFloat) : Net(element) {
    words = Constant("words", {50, kHidden}), places = Constant("places", {16, kHidden});
    kinds = Constant("kinds", {2, kHidden});
    scale = Constant("scale", {kHidden}), bias = Constant("bias", {kHidden});
    ids = Ids("ids", {kBatch, kRows}), segments = Ids("segments", {kBatch, kRows});
    positions = Ids("positions", {Dim{1}, kRows});
  }
  int Ids(const char* name, std::vector<Dim> dims, DataType element = DataType::kInt64) {
    const int value = Input(name, std::move(dims));
    graph.value(value).type = element;
    return value;
  }
  int Gather(int table, int by, int64_t axis = 0) {
    std::vector<Dim> dims = *graph.value(by).dims;
    dims.push_back({kHidden});
    return Add("Gather", 13, {table, by}, std::move(dims), {{"axis", axis}});
  }
  int Sum(int a, int b) { return Add("Add", 14, {a, b}, kHiddenDims); }
  int Norm(int x, const char* op = "LayerNormalization", int64_t axis = -1) {
    std::vector<int> inputs = {x, scale};
    if (std::string_view(op) == "LayerNormalization") inputs.push_back(bias);
    return Add(op, op[0] == 'L' ? 17 : 23, std::move(inputs), kHiddenDims, {{"axis", axis}, {"epsilon", 1e-6f}});
  }
  int64_t Count(const char* op) const { return std::ranges::count(Operators(), op); }
  int words, places, kinds, scale, bias, ids, segments, positions;
};

using Inputs = std::vector<int>;

TEST(EmbeddingPassTest, WordsPlacesAndSegmentsInAnyOrder) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBFloat16}) {
    for (const bool places_last : {false, true}) {
      TokenNet net(type);
      const int word = net.Gather(net.words, net.ids), place = net.Gather(net.places, net.positions);
      const int kind = net.Gather(net.kinds, net.segments);
      net.Output(net.Norm(places_last ? net.Sum(net.Sum(word, kind), place) : net.Sum(kind, net.Sum(place, word))));
      net.Run();
      ASSERT_EQ(net.Operators(), Ops{"Embedding"});
      EXPECT_EQ(net.node(0).domain, ops::kFusedDomain);
      const Inputs last{net.words, net.ids, net.kinds, net.segments, net.places, net.positions, net.scale, net.bias};
      const Inputs first{net.kinds, net.segments, net.places, net.positions, net.words, net.ids, net.scale, net.bias};
      EXPECT_EQ(net.node(0).inputs, places_last ? last : first);
      EXPECT_EQ(net.node(0).outputs, net.graph.outputs);
      EXPECT_FLOAT_EQ(net.FloatOf(0, "epsilon"), 1e-6f);
      EXPECT_EQ(net.node(0).sources.size(), 6u);
    }
  }
}

TEST(EmbeddingPassTest, ConstantRowsOfAllTokensOrOfEach) {
  for (const Shape& dims : {Shape{1, 1, kHidden}, Shape{kHidden}, Shape{1, 6, kHidden}, Shape{6, kHidden}}) {
    TokenNet net;
    const int ids = net.Ids("six", {kBatch, Dim{6}}), rows = net.Constant("rows", dims);
    const int sum = net.Add("Add", 14, {net.Gather(net.words, ids), rows}, {kBatch, Dim{6}, Dim{kHidden}});
    net.Output(net.Norm(sum));
    net.Run();
    ASSERT_EQ(net.Operators(), Ops{"Embedding"}) << dims.rank();
    const int read = net.node(0).inputs[2];  // a row of one as a vector
    EXPECT_EQ(net.node(0).inputs, (Inputs{net.words, ids, read, -1, -1, -1, net.scale, net.bias}));
    EXPECT_EQ(net.graph.value(read).constant.data, net.graph.value(rows).constant.data);
  }
}

TEST(EmbeddingPassTest, PlacesThatAreCutToTheTokens) {
  TokenNet net;
  const int cut = net.Ids("cut", {Dim{1}, Dim{kUnknownDim, "first"}});
  net.Output(net.Norm(net.Sum(net.Gather(net.words, net.ids), net.Gather(net.places, cut))));
  net.Run();
  EXPECT_EQ(net.Operators(), Ops{"Embedding"});
}

TEST(EmbeddingPassTest, OneTableWithItsNorm) {
  for (const char* op : {"LayerNormalization", "RMSNormalization"}) {
    TokenNet net;
    net.Output(net.Norm(net.Gather(net.words, net.ids, -2), op));
    net.Run();
    ASSERT_EQ(net.Operators(), Ops{"Embedding"}) << op;
    EXPECT_EQ(std::get<int64_t>(net.node(0).attributes.at("rms")), op[0] == 'R' ? 1 : 0);
  }
}

TEST(EmbeddingPassTest, WithoutNormAndWithOneWhoseSumIsReadElsewhere) {
  TokenNet net;
  net.Output(net.Sum(net.Gather(net.words, net.ids), net.Gather(net.places, net.positions)));
  net.Run();
  ASSERT_EQ(net.Operators(), Ops{"Embedding"});
  EXPECT_EQ(net.node(0).inputs, (Inputs{net.words, net.ids, net.places, net.positions}));

  TokenNet read;
  const int sum = read.Sum(read.Gather(read.words, read.ids), read.Gather(read.places, read.positions));
  const int early = read.Op("Relu", {sum}), norm = read.Norm(sum);
  read.Output(early);
  read.Output(norm);
  read.Run();
  ASSERT_EQ(read.Operators(), (Ops{"Embedding", "Relu"}));
  EXPECT_EQ(read.node(0).outputs, (Inputs{norm, sum}));
}

TEST(EmbeddingPassTest, DimensionsThatAreAskedForNeedNoSum) {
  TokenNet net;
  const int word = net.Gather(net.words, net.ids), sum = net.Sum(word, net.Gather(net.places, net.positions));
  for (const int asked : {word, sum}) net.Output(net.OnHost("Shape", 15, {asked}, 1));
  net.Output(net.Norm(sum));
  net.Run();
  const auto found = std::ranges::find(net.graph.nodes, "Embedding", &ir::Node::op_type);
  ASSERT_NE(found, net.graph.nodes.end());
  EXPECT_EQ(found->outputs, Inputs{net.graph.outputs.back()});
}

// What is left alone, and the reason that is told, if any.
struct Negative {
  const char* name;
  void (*build)(TokenNet& net);
  const char* missed;
  int64_t sums = 0;  // that are taken all the same, without a norm
};

const Negative kNegatives[] = {
    {"columns of a table",
     [](TokenNet& net) {
       const int square = net.Constant("square", {kHidden, kHidden});
       net.Output(net.Norm(net.Gather(square, net.ids, 1)));
     },
     ""},
    {"a table of three dimensions",
     [](TokenNet& net) {
       const int deep = net.Constant("deep", {9, 3, kHidden});
       const int ids = net.Ids("row", {kBatch});
       net.Output(net.Norm(net.Add("Gather", 13, {deep, ids}, {kBatch, Dim{3}, Dim{kHidden}}, {{"axis", int64_t{0}}})));
     },
     ""},
    {"float64",
     [](TokenNet& net) {
       const int word = net.Gather(net.words, net.ids);
       const int sum = net.Sum(word, net.Gather(net.places, net.positions));
       for (const int value : {word, sum}) net.graph.value(value).type = DataType::kDouble;
       net.Output(sum);
     },
     ""},
    {"four summands",
     [](TokenNet& net) {
       int sum = net.Gather(net.words, net.ids);
       for (const int table : {net.places, net.kinds, net.words}) sum = net.Sum(sum, net.Gather(table, net.segments));
       net.Output(net.Norm(sum));
     },
     "more than three summands", 1},
    {"a summand that is computed",
     [](TokenNet& net) {
       net.Output(net.Norm(net.Sum(net.Gather(net.words, net.ids), net.Op("Relu", {net.Hidden("x")}))));
     },
     "neither rows of a table nor a constant"},
    {"rows that others read",
     [](TokenNet& net) {
       const int word = net.Gather(net.words, net.ids);
       net.Output(net.Norm(net.Sum(word, net.Gather(net.places, net.positions))));
       net.Output(word);
     },
     "a summand is read elsewhere"},
    {"ids of the batch alone",
     [](TokenNet& net) {
       const int each = net.Ids("each", {kBatch, Dim{1}});
       net.Output(net.Norm(net.Sum(net.Gather(net.words, net.ids), net.Gather(net.places, each))));
     },
     "ids are not stated to repeat"},
    {"a constant of the batch alone",
     [](TokenNet& net) {
       const int ids = net.Ids("two", {Dim{2}, Dim{6}}), rows = net.Constant("rows", {2, 1, kHidden});
       net.Output(net.Norm(net.Add("Add", 14, {net.Gather(net.words, ids), rows}, {Dim{2}, Dim{6}, Dim{kHidden}})));
     },
     "a constant does not repeat"},
    {"a constant of one column",
     [](TokenNet& net) {
       const int column = net.Constant("column", {1});
       net.Output(net.Norm(net.Sum(net.Gather(net.words, net.ids), column)));
     },
     "a constant does not repeat"},
    {"a norm of another axis",
     [](TokenNet& net) { net.Output(net.Norm(net.Gather(net.words, net.ids), "LayerNormalization", 1)); }, ""},
    {"a scale that is made after the sum leaves",
     [](TokenNet& net) {
       const int sum = net.Sum(net.Gather(net.words, net.ids), net.Gather(net.places, net.positions));
       net.Output(net.Op("Relu", {sum}));
       net.scale = net.Add("Relu", 14, {net.scale}, {Dim{kHidden}});
       net.Output(net.Norm(sum));
     },
     "scale and bias", 1},
    {"a constant without a table",
     [](TokenNet& net) {
       net.Output(net.Norm(net.Sum(net.Hidden("x"), net.Constant("rows", {1, 1, kHidden}))));
     },
     ""},
};

TEST(EmbeddingPassTest, NegativesOfEachPredicate) {
  for (const Negative& negative : kNegatives) {
    TokenNet net;
    negative.build(net);
    Settings alone;
    for (int f = 0; f < kFusionCount; ++f) {
      if (static_cast<Fusion>(f) != Fusion::kEmbedding) alone.fusion_skip.Add(static_cast<Fusion>(f));
    }
    const std::vector<FusionNote> notes = net.Run(alone);
    EXPECT_EQ(net.Count("Embedding"), negative.sums) << negative.name;
    EXPECT_GT(net.Count("LayerNormalization") + net.Count("Add"), 0) << negative.name;
    const auto missed = std::ranges::find_if(notes, [](const FusionNote& note) { return !note.missed.empty(); });
    const std::string said = missed == notes.end() ? "" : missed->missed;
    EXPECT_EQ(said.empty(), negative.missed[0] == '\0') << negative.name << ": " << said;
    EXPECT_NE(said.find(negative.missed), std::string::npos) << negative.name << ": " << said;
  }
}

TEST(EmbeddingPassTest, LeftOutByName) {
  TokenNet net;
  net.Output(net.Norm(net.Gather(net.words, net.ids)));
  Settings settings;
  settings.fusion_skip.Add(Fusion::kEmbedding);
  net.Run(settings);
  EXPECT_EQ(net.Operators(), (Ops{"Gather", "LayerNormalization"}));
}

}  // namespace
}  // namespace cudaep::graph
