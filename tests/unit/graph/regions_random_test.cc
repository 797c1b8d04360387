// Random graphs against the oracle.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <sstream>

#include "graph/region/regions.h"
#include "region_oracle.h"

namespace cudaep::graph {
namespace {

constexpr uint32_t kGraphs = 12'000;

// A graph as models are, with as much of what regions cannot have as the seed says.
class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed) {
    const auto nodes = static_cast<size_t>(Below(59)) + 2;
    outside_ = Percent({0, 0, 5, 15, 40});
    shape_ = Percent({0, 15, 30, 50});
    noise_ = Percent({0, 1, 5, 25});
    window_ = Below(3) == 0 ? 60 : 6;
    for (int v = 0; v < 4; ++v) graph_.values.push_back({-1, v % 2 == 1, v == 1, false});
    for (size_t n = 0; n < nodes; ++n) AddNode();
  }

  const RegionGraph& graph() const { return graph_; }

 private:
  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }
  bool With(int percent) { return Below(100) < percent; }
  int Percent(std::vector<int> choices) {
    return choices[static_cast<size_t>(Below(static_cast<int>(choices.size())))];
  }

  void AddNode() {
    RegionNode node;
    node.role = With(outside_) ? RegionRole::kOutside : With(shape_) ? RegionRole::kShape : RegionRole::kDevice;
    node.reads_dims_only = node.role == RegionRole::kShape && With(40);
    for (int inputs = 1 + Below(3); inputs > 0; --inputs) node.inputs.push_back(Use(node));
    const int self = static_cast<int>(graph_.nodes.size());
    for (int outputs = With(80) ? 1 : Below(4); outputs > 0; --outputs) {
      if (With(5)) {
        node.outputs.push_back(-1);
        continue;
      }
      node.outputs.push_back(static_cast<int>(graph_.values.size()));
      graph_.values.push_back({self, false, false, With(node.role == RegionRole::kShape ? noise_ / 4 : 5)});
    }
    graph_.nodes.push_back(node);
  }

  RegionUse Use(const RegionNode& node) {
    if (With(3)) return {};
    if (With(noise_)) return {Value(), With(30)};
    for (int tries = 0; tries < 20; ++tries) {
      const int value = Value();
      const RegionValue& it = graph_.values[static_cast<size_t>(value)];
      const bool shape = it.producer >= 0 && graph_.nodes[static_cast<size_t>(it.producer)].role == RegionRole::kShape;
      switch (node.role) {
        case RegionRole::kOutside:
          if (!shape) return {value, false};
          break;
        case RegionRole::kShape:
          if (node.reads_dims_only || shape || it.host_constant) return {value, With(50)};
          break;
        case RegionRole::kDevice:
          return {value, shape ? With(80) : it.host_constant && With(50)};
      }
    }
    return {1, false};  // the host constant
  }

  // One of the last few, or of all.
  int Value() {
    const int count = static_cast<int>(graph_.values.size());
    return With(70) ? count - 1 - Below(std::min(count, window_)) : Below(count);
  }

  std::mt19937 random_;
  RegionGraph graph_;
  int outside_ = 0;
  int shape_ = 0;
  int noise_ = 0;
  int window_ = 0;
};

std::string Describe(const RegionGraph& graph, const std::vector<std::vector<int>>& groups) {
  std::ostringstream text;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const RegionNode& node = graph.nodes[n];
    text << n << " "
         << "odS"[static_cast<int>(node.role)] << (node.reads_dims_only ? "* (" : " (");
    for (const RegionUse& use : node.inputs) text << (use.host_input ? " @" : " ") << use.value;
    text << " ) ->";
    for (int output : node.outputs) {
      text << " " << output << (output >= 0 && graph.values[static_cast<size_t>(output)].leaves ? "!" : "");
    }
    text << "\n";
  }
  for (const auto& group : groups) {
    for (int node : group) text << node << " ";
    text << "\n";
  }
  return text.str();
}

TEST(RandomRegions, AreRightAndMissNothing) {
  int several = 0;
  int with_shapes = 0;
  int shapes_left_out = 0;
  int of_all_nodes = 0;
  for (uint32_t seed = 0; seed < kGraphs; ++seed) {
    const RandomGraph random(seed);
    const RegionGraph& graph = random.graph();
    const RegionOracle oracle(graph);
    const auto groups = FindRegions(graph, 1);
    const auto larger = FindRegions(graph, 3);
    ASSERT_EQ(oracle.Wrong(groups, 1), "") << "seed " << seed << "\n" << Describe(graph, groups);
    ASSERT_EQ(oracle.Wrong(larger, 3), "") << "seed " << seed << "\n" << Describe(graph, larger);
    ASSERT_EQ(oracle.Missed(groups), "") << "seed " << seed << "\n" << Describe(graph, groups);
    ASSERT_EQ(FindRegions(graph, 1), groups) << "seed " << seed;

    size_t shapes = 0;
    size_t shapes_in = 0;
    for (const RegionNode& node : graph.nodes) shapes += node.role == RegionRole::kShape;
    for (const auto& group : groups) {
      for (int node : group) shapes_in += graph.nodes[static_cast<size_t>(node)].role == RegionRole::kShape;
    }
    several += groups.size() > 1;
    with_shapes += shapes_in > 1;
    shapes_left_out += shapes_in > 0 && shapes_in < shapes;
    of_all_nodes += groups.size() == 1 && groups[0].size() == graph.nodes.size();
  }
  // The graphs are such that there is something to be wrong about.
  EXPECT_GT(several, static_cast<int>(kGraphs / 4));
  EXPECT_GT(with_shapes, static_cast<int>(kGraphs / 4));
  EXPECT_GT(shapes_left_out, static_cast<int>(kGraphs / 8));
  EXPECT_GT(of_all_nodes, static_cast<int>(kGraphs / 50));
}

}  // namespace
}  // namespace cudaep::graph
