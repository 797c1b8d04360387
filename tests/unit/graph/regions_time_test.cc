// Time for 10,000 nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <random>

#include "graph/region/regions.h"
#include "region_oracle.h"

namespace cudaep::graph {
namespace {

double BestMilliseconds(const RegionGraph& graph) {
  double best = 1e9;
  for (int run = 0; run < 5; ++run) {
    const std::clock_t start = std::clock();
    const auto groups = FindRegions(graph, 2);
    best = std::min(best, 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    EXPECT_EQ(RegionOracle(graph).Wrong(groups, 2), "");
  }
  return best;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kMost = 2000;
#else
constexpr double kMost = 50;
#endif

constexpr int kNodes = 10'000;

// Nodes of one output each, with the nodes that they read before themselves.
RegionGraph GraphOf(int nodes, const std::function<RegionNode(int)>& node_of) {
  RegionGraph graph;
  graph.values.push_back({});  // read where a node before the first is asked for
  for (int n = 0; n < nodes; ++n) {
    RegionNode node = node_of(n);
    for (RegionUse& use : node.inputs) use.value = std::max(0, n + 1 - use.value);
    node.outputs = {n + 1};
    graph.nodes.push_back(node);
    graph.values.push_back({n});
  }
  return graph;
}

TEST(RegionTime, AChain) {
  const RegionGraph graph = GraphOf(kNodes, [](int) { return RegionNode{RegionRole::kDevice, false, {{1}}, {}}; });
  EXPECT_EQ(FindRegions(graph, 1).size(), 1U);
  EXPECT_LT(BestMilliseconds(graph), kMost);
}

TEST(RegionTime, ALadder) {
  const RegionGraph graph = GraphOf(kNodes, [](int) { return RegionNode{RegionRole::kDevice, false, {{1}, {2}}, {}}; });
  EXPECT_EQ(FindRegions(graph, 1).size(), 1U);
  EXPECT_LT(BestMilliseconds(graph), kMost);
}

// Every third node is outside, and rungs go past it: thousands of groups, all with neighbours.
TEST(RegionTime, ALadderWithGaps) {
  const RegionGraph graph = GraphOf(kNodes, [](int n) {
    const RegionRole role = n % 3 == 2 ? RegionRole::kOutside : RegionRole::kDevice;
    return RegionNode{role, false, {{1}, {2}, {37}, {4001}}, {}};
  });
  EXPECT_EQ(FindRegions(graph, 2).size(), static_cast<size_t>(kNodes) / 3);
  EXPECT_LT(BestMilliseconds(graph), kMost);
}

// Shape nodes and readers at random, with nodes outside between nearly all: searches end where their work is used up.
TEST(RegionTime, AGraphThatWouldTakeLong) {
  std::mt19937 random(1);
  const auto some = [&](int most) { return 1 + static_cast<int>(random() % static_cast<uint32_t>(most)); };
  const RegionGraph graph = GraphOf(kNodes, [&](int n) {
    if (n % 4 == 0) return RegionNode{RegionRole::kShape, true, {{2 * some(50) - 1}}, {}};
    if (n % 4 == 2) return RegionNode{RegionRole::kDevice, false, {{2 * some(50) - 1}, {4 * some(25) - 2, true}}, {}};
    const RegionRole role = some(10) == 1 ? RegionRole::kOutside : RegionRole::kDevice;
    return RegionNode{role, false, {{2 * some(50)}, {4 * some(25) - 1}}, {}};
  });
  EXPECT_LT(BestMilliseconds(graph), 4 * kMost);
}

// A shape read at both ends, with a node outside between, costs the shapes read in one place nothing.
TEST(RegionTime, OneShapeOfBothSidesAmongMany) {
  const RegionGraph graph = GraphOf(kNodes, [](int n) {
    if (n == 0) return RegionNode{RegionRole::kShape, true, {{1}}, {}};
    if (n == kNodes / 2 + 1) return RegionNode{RegionRole::kOutside, false, {{2}}, {}};
    if (n % 2 == 0) return RegionNode{RegionRole::kShape, true, {{1}}, {}};
    const bool reads_the_first = n == 1 || n == kNodes - 1;
    return RegionNode{RegionRole::kDevice, false, {{2}, {reads_the_first ? n : 1, true}}, {}};
  });
  EXPECT_EQ(FindRegions(graph, 1).size(), 2U);
  EXPECT_LT(BestMilliseconds(graph), kMost);
}

// Each shape prevents the next: they would go one by one.
TEST(RegionTime, ShapesThatPreventEachOther) {
  const RegionGraph graph = GraphOf(kNodes, [](int n) {
    switch (n % 4) {
      case 0:
        return RegionNode{RegionRole::kShape, true, {{kNodes}}, {}};
      case 1:
        return RegionNode{RegionRole::kDevice, false, {{kNodes}, {1, true}}, {}};
      case 2:
        return RegionNode{RegionRole::kOutside, false, {{1}}, {}};
      default:  // of the shape four before, the node outside before that, and the first reader of this one
        return RegionNode{RegionRole::kDevice, false, {{2}, {7, true}, {9}}, {}};
    }
  });
  EXPECT_LT(BestMilliseconds(graph), 4 * kMost);
}

// Many groups with many neighbours, of which none can join.
TEST(RegionTime, GroupsThatPreventEachOther) {
  const RegionGraph graph = GraphOf(kNodes, [](int n) {
    const RegionRole role = n % 3 == 2 ? RegionRole::kOutside : RegionRole::kDevice;
    return RegionNode{role, false, {{1}, {2}, {1001}, {2002}, {3001}, {4003}, {5002}, {6001}, {7003}}, {}};
  });
  EXPECT_LT(BestMilliseconds(graph), 4 * kMost);
}

}  // namespace
}  // namespace cudaep::graph
