// Parts of values that lie together are read where they lie; others, and those that leave, are copied.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "region_fixture.h"

namespace cudaep::graph {
namespace {

constexpr int64_t kTaken = 8;  // rows, of 256 bytes together

// A graph of x, [n, 8], with one output.
struct PartNet {
  ir::Graph graph;
  int x = -1;

  PartNet() {
    x = Value("x");
    graph.value(x).input = 0;
    graph.inputs = {x};
  }
  int Value(const char* name) {
    return graph.AddValue(
        {.name = name, .type = DataType::kFloat, .dims = std::vector<ir::Dim>{{kUnknownDim}, {kWidth}}});
  }
  std::vector<int> Add(const char* op, int version, std::vector<int> inputs, size_t outputs = 1) {
    std::vector<int> made(outputs);
    std::ranges::generate(made, [&] { return Value(op); });
    graph.nodes.push_back({.name = op,
                           .op_type = op,
                           .since_version = version,
                           .inputs = std::move(inputs),
                           .outputs = made,
                           .sources = {op}});
    return made;
  }
  int One(const char* op, int version, std::vector<int> inputs) { return Add(op, version, std::move(inputs))[0]; }
  int Ints(std::vector<int64_t> values) {
    ops::HostTensor tensor{.type = DataType::kInt64, .dims = {static_cast<int64_t>(values.size())}, .data = {}};
    tensor.data.resize(values.size() * sizeof(int64_t));
    std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
    return graph.AddConstant("ints", std::move(tensor));
  }
  // kTaken rows from `first` on.
  int Rows(int value, int64_t first) {
    return One("Slice", 13, {value, Ints({first}), Ints({first + kTaken}), Ints({0})});
  }
  ir::Graph Ending(int y) {
    graph.value(y).output = 0;
    graph.outputs = {y};
    return std::move(graph);
  }
};

class RegionPartsTest : public RegionFixture {
 protected:
  void MakeRegions() override {}
  // The region's result of 16 rows, kTaken rows of it, and how many kernels that took.
  void Expect(PartNet& net, int y, const std::function<float(const std::vector<float>& x, size_t at)>& value,
              uint64_t kernels) {
    Settings settings;
    settings.fusion = settings.region_graphs = false;
    const ir::Graph graph = net.Ending(y);
    const auto region = Make(graph, settings);
    settings.region_graphs = true;
    const auto replayed = Make(graph, settings);
    constexpr int64_t kRows = 2 * kTaken;
    auto* const x = Allocate<float>(kRows * kWidth);
    auto* const result = Allocate<float>(kTaken * kWidth);
    for (const int seed : {1, 2}) {
      const std::vector<float> values = Values(kRows, seed);
      ASSERT_OK(device::MemcpyAsync(x, values.data(), values.size() * sizeof(float), stream()));
      const uint64_t before = device::sim::Snapshot().launches;
      ASSERT_OK(Call(*region, *context_, x, result, kRows));
      const std::vector<float> found = Download(result, kTaken * kWidth);
      EXPECT_EQ(device::sim::Snapshot().launches - before, kernels);
      for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], value(values, i)) << i;
      for (int turn = 0; turn < 3; ++turn) {
        ASSERT_OK(device::MemsetAsync(result, 0, found.size() * sizeof(float), stream()));
        ASSERT_OK(Call(*replayed, *context_, x, result, kRows));
        EXPECT_EQ(Download(result, kTaken * kWidth), found);
      }
    }
    EXPECT_OK(device::Free(x));
    EXPECT_OK(device::Free(result));
  }
  static constexpr size_t kPart = kTaken * kWidth;
};

float Relu(float x) { return x < 0 ? 0 : x; }

TEST_F(RegionPartsTest, ASliceOfRowsIsReadWhereItLies) {
  PartNet net;
  const int whole = net.One("Relu", 14, {net.x});
  const int y = net.One("Sub", 14, {net.Rows(whole, 0), net.Rows(whole, kTaken)});
  Expect(
      net, y, [](const auto& x, size_t i) { return Relu(x[i]) - Relu(x[kPart + i]); }, 2);
}

// Of an input they are copied: an output may be in its memory.
TEST_F(RegionPartsTest, PartsOfPartsAndOfAnInput) {
  for (const bool of_input : {false, true}) {
    PartNet net;
    const int whole = of_input ? net.x : net.One("Neg", 13, {net.x});
    const int later = net.One("Slice", 13, {whole, net.Ints({kTaken}), net.Ints({INT64_MAX}), net.Ints({0})});
    const int y = net.One("Sub", 14, {net.Rows(later, 0), net.Rows(whole, 0)});
    const float sign = of_input ? 1.0f : -1.0f;
    Expect(
        net, y, [&](const auto& x, size_t i) { return sign * (x[kPart + i] - x[i]); }, of_input ? 3 : 2);
  }
}

// The last of them begins 32 bytes further.
TEST_F(RegionPartsTest, SomePartsOfASplit) {
  PartNet net;
  const int whole = net.One("Relu", 14, {net.x});
  const std::vector<int> part = net.Add("Split", 13, {whole, net.Ints({kTaken, 1, kTaken - 1})}, 3);
  const int others = net.One("Concat", 13, {part[2], part[1]});
  net.graph.nodes.back().attributes = {{"axis", int64_t{0}}};
  const int y = net.One("Sub", 14, {part[0], others});
  const auto value = [](const auto& x, size_t i) {
    const bool is_last = i / kWidth == kTaken - 1;
    return Relu(x[i]) - Relu(x[is_last ? kPart + i % kWidth : kPart + kWidth + i]);
  };
  Expect(net, y, value, 4);
}

TEST_F(RegionPartsTest, APartIsOverwrittenWhereNobodyReadsItLater) {
  PartNet net;
  const int first = net.Rows(net.One("Relu", 14, {net.x}), kTaken);
  const int y = net.One("Sub", 14, {net.One("Neg", 13, {first}), net.Rows(net.x, 0)});
  Expect(
      net, y, [](const auto& x, size_t i) { return -Relu(x[kPart + i]) - x[i]; }, 4);
}

TEST_F(RegionPartsTest, ASplitOfTheFirstAxis) {
  PartNet net;
  const std::vector<int> half = net.Add("Split", 13, {net.One("Relu", 14, {net.x}), net.Ints({kTaken, kTaken})}, 2);
  const int y = net.One("Sub", 14, {half[1], half[0]});
  Expect(
      net, y, [](const auto& x, size_t i) { return Relu(x[kPart + i]) - Relu(x[i]); }, 2);
}

// From row 1 on: 32 bytes.
TEST_F(RegionPartsTest, WhatIsAlignedLessIsCopied) {
  PartNet net;
  const int whole = net.One("Relu", 14, {net.x});
  const int y = net.One("Sub", 14, {net.Rows(whole, 1), net.Rows(whole, kTaken)});
  Expect(
      net, y, [](const auto& x, size_t i) { return Relu(x[kWidth + i]) - Relu(x[kPart + i]); }, 3);
}

TEST_F(RegionPartsTest, WhatLeavesIsCopied) {
  PartNet net;
  const int y = net.Rows(net.One("Relu", 14, {net.x}), kTaken);
  Expect(
      net, y, [](const auto& x, size_t i) { return Relu(x[kPart + i]); }, 2);
}

// Neg may write over its input: not while that is a part of what is read later.
TEST_F(RegionPartsTest, NobodyWritesOverAPartOfWhatIsReadLater) {
  PartNet net;
  const int whole = net.One("Relu", 14, {net.x});
  const int first = net.One("Neg", 13, {net.Rows(whole, 0)});
  const int both = net.One("Add", 14, {whole, whole});
  const int y = net.One("Add", 14, {net.One("Add", 14, {first, net.Rows(both, 0)}), net.Rows(whole, kTaken)});
  Expect(
      net, y, [](const auto& x, size_t i) { return Relu(x[i]) + Relu(x[kPart + i]); }, 5);
}

// A part keeps what it is taken of, but not for long.
TEST_F(RegionPartsTest, APartThatLivesLongIsCopied) {
  for (const int between : {2, 12}) {
    PartNet net;
    const int part = net.Rows(net.One("Relu", 14, {net.x}), kTaken);
    int other = net.Rows(net.x, 0);  // copied
    for (int i = 0; i < between; ++i) other = net.One("Neg", 13, {other});
    const int y = net.One("Sub", 14, {other, part});
    const auto kernels = static_cast<uint64_t>(3 + between + (between > 4 ? 1 : 0));
    Expect(
        net, y, [](const auto& x, size_t i) { return x[i] - Relu(x[kPart + i]); }, kernels);
  }
}

}  // namespace
}  // namespace cudaep::graph
