// Which nodes follow from constants and dimensions alone.
#include <gtest/gtest.h>

#include "transformer_net.h"

namespace cudaep::graph {
namespace {

Settings Only(bool fusion = true) {
  Settings settings = WithoutChains();
  settings.fusion = fusion;
  return settings;
}

// x + cos(Range(0, rows, 1) as floats), and what a test adds.
struct OnceNet : Net {
  OnceNet() {
    x = Input("x", {kRows});
    const int rows = OnHost("Gather", 13, {OnHost("Shape", 13, {x}, 1), Ints("first", {0})}, 1);
    const int count = OnHost("Squeeze", 13, {rows}, 0);
    positions = Open("Range", 11, {Number(0), count, Number(1)}, 1);
    graph.value(positions).type = DataType::kInt64;
    table = Open("Cos", 7, {Open("Cast", 13, {positions}, 1, {{"to", int64_t{1}}})}, 1);
  }
  int Number(int64_t number) {
    const int value = Ints("number", {number});
    graph.value(value).dims.emplace();
    graph.value(value).constant.rank = 0;
    return value;
  }
  Ops Once() const {
    Ops ops;
    for (const ir::Node& node : graph.nodes) {
      if (node.once) ops.push_back(node.op_type);
    }
    return ops;
  }
  int x, positions, table;
};

TEST(OncePassTest, WhatReadsConstantsAndDimensionsAlone) {
  OnceNet net;
  net.Output(net.Open("Add", 14, {net.x, net.table}, 1));
  net.Run(Only());
  EXPECT_EQ(net.Once(), (Ops{"Range", "Cast", "Cos"}));
}

TEST(OncePassTest, NotWhatReadsAnInput) {
  OnceNet net;
  const int scaled = net.Open("Mul", 14, {net.table, net.x}, 1);
  net.Output(net.Open("Sub", 14, {net.Open("Exp", 13, {scaled}, 1), net.Open("Abs", 13, {net.table}, 1)}, 1));
  net.Run(Only());
  EXPECT_EQ(net.Once(), (Ops{"Range", "Cast", "Cos", "Abs"}));
}

TEST(OncePassTest, NotWhatLeavesNorWhatReadsThat) {
  OnceNet net;
  net.Output(net.table);
  net.Output(net.Open("Mul", 14, {net.x, net.Open("Abs", 13, {net.table}, 1)}, 1));
  net.Run(Only());
  EXPECT_EQ(net.Once(), (Ops{"Range", "Cast"}));
}

TEST(OncePassTest, NotWhatDrawsNumbersOrIsSharedWithOtherRanks) {
  OnceNet net;
  const int drawn = net.Open("RandomNormalLike", 1, {net.table}, 1);
  const int chosen = net.Open("Bernoulli", 15, {net.table}, 1);
  const int dropped = net.Open("Dropout", 13, {net.table}, 1);
  const int summed = net.Open("AllReduce", 1, {net.table}, 1);
  net.graph.nodes.back().domain = "ort_cuda_ep";
  const int drawn_too = net.Open("Sum", 13, {drawn, chosen, dropped, summed}, 1);
  net.Output(net.Open("Mul", 14, {net.x, drawn_too}, 1));
  net.Run(Only());
  EXPECT_EQ(net.Once(), (Ops{"Range", "Cast", "Cos"}));
}

TEST(OncePassTest, NotWhereItIsLeftOut) {
  for (const bool fusion : {true, false}) {
    OnceNet net;
    net.Output(net.Open("Add", 14, {net.x, net.table}, 1));
    Settings settings = Only(fusion);
    if (fusion) settings.fusion_skip.Add(Fusion::kOnce);
    net.Run(settings);
    EXPECT_EQ(net.Once(), Ops{});
  }
}

}  // namespace
}  // namespace cudaep::graph
