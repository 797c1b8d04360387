#include "abi/region_claims.h"

#include "graph/region/regions.h"

namespace cudaep::abi {
namespace {

// One node alone gains nothing, and the host's own fusions could take it.
constexpr int kLeastNodes = 2;

graph::RegionGraph Describe(const GraphView& view, const std::vector<bool>& shape_nodes) {
  graph::RegionGraph graph;
  for (const graph::PlacementValue& value : view.placement.values) {
    graph.values.push_back({.producer = value.producer,
                            .constant = value.constant,
                            .host_constant = value.small_constant,
                            .leaves = value.graph_output});
  }
  for (size_t i = 0; i < view.nodes.size(); ++i) {
    const graph::PlacementNode& placed = view.placement.nodes[i];
    const RegionFacts& facts = view.regions[i];
    graph::RegionNode node{.reads_dims_only = facts.reads_dims_only, .outputs = {}};
    if (view.report.nodes[i].home == graph::NodeHome::kOverBudget) {
      node.role = graph::RegionRole::kOutside;
    } else if (facts.on_device && !shape_nodes[i]) {
      node.role = graph::RegionRole::kDevice;
    } else if (facts.on_host && (shape_nodes[i] || placed.claimed)) {
      node.role = graph::RegionRole::kShape;
    }
    for (const graph::PlacementUse& use : placed.inputs) node.inputs.push_back({use.value, use.host_input});
    for (const int value : facts.read_inside) {
      node.inputs.push_back({value, false});
      graph.values[static_cast<size_t>(value)].leaves = true;
    }
    for (const int output : placed.outputs) {
      if (output >= 0) node.outputs.push_back(output);
    }
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

}  // namespace

std::vector<RegionClaims::Region> RegionClaims::Find(const GraphView& view, const std::vector<bool>& shape_nodes) {
  evaluated_.clear();
  const graph::RegionGraph graph = Describe(view, shape_nodes);
  std::vector<Region> regions;
  for (std::vector<int>& nodes : graph::FindRegions(graph, kLeastNodes)) {
    Region& region = regions.emplace_back(Region{std::move(nodes), {}});
    for (const int index : region.nodes) {
      const graph::RegionNode& node = graph.nodes[static_cast<size_t>(index)];
      if (node.role != graph::RegionRole::kShape) continue;
      region.evaluated.push_back(index);
      for (const int output : node.outputs) {
        evaluated_.insert(view.placement.values[static_cast<size_t>(output)].name);
      }
    }
  }
  return regions;
}

}  // namespace cudaep::abi
