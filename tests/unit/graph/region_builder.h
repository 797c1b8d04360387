// Region graphs for tests, from lines of names.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "graph/region/regions.h"
#include "region_oracle.h"

namespace cudaep::graph {

using Names = std::vector<std::string>;
using Groups = std::vector<Names>;

// Builds graphs from lines of names, the way a model reads. Inputs written "@name" are read in host memory, "" is an
// absent one. A node is called by its first output.
class RegionBuilder {
 public:
  RegionBuilder& HostConstant(const std::string& name) {
    graph_.values[Value(name)].host_constant = graph_.values[Value(name)].constant = true;
    return *this;
  }
  RegionBuilder& Weight(const std::string& name) {
    graph_.values[Value(name)].constant = true;
    return *this;
  }
  RegionBuilder& Leaves(const std::string& name) {
    graph_.values[Value(name)].leaves = true;
    return *this;
  }
  RegionBuilder& Device(const Names& inputs, const Names& outputs) {
    return Node(RegionRole::kDevice, inputs, outputs);
  }
  RegionBuilder& Outside(const Names& inputs, const Names& outputs) {
    return Node(RegionRole::kOutside, inputs, outputs);
  }
  RegionBuilder& Shape(const Names& inputs, const Names& outputs) { return Node(RegionRole::kShape, inputs, outputs); }
  RegionBuilder& ShapeOf(const Names& inputs, const Names& outputs) {
    Shape(inputs, outputs);
    graph_.nodes.back().reads_dims_only = true;
    return *this;
  }
  // y = Reshape(x, the shape of `like`).
  RegionBuilder& ReshapeLike(const std::string& x, const std::string& like, const std::string& y) {
    return ShapeOf({like}, {y + "_shape"}).Device({x, "@" + y + "_shape"}, {y});
  }

  // Every answer goes through the oracle too.
  Groups Find(int least_device_nodes = 1) const {
    const auto groups = FindRegions(graph_, least_device_nodes);
    const RegionOracle oracle(graph_);
    EXPECT_EQ(oracle.Wrong(groups, least_device_nodes), "");
    if (least_device_nodes == 1) {
      EXPECT_EQ(oracle.Missed(groups), "");
    }
    Groups result;
    for (const auto& group : groups) {
      Names& names = result.emplace_back();
      for (int node : group) names.push_back(names_of_nodes_[static_cast<size_t>(node)]);
    }
    return result;
  }

 private:
  RegionBuilder& Node(RegionRole role, const Names& inputs, const Names& outputs) {
    RegionNode node;
    node.role = role;
    for (const std::string& input : inputs) {
      const bool host = input.starts_with("@");
      const std::string name = host ? input.substr(1) : input;
      node.inputs.push_back({name.empty() ? -1 : static_cast<int>(Value(name)), host});
    }
    for (const std::string& output : outputs) {
      node.outputs.push_back(output.empty() ? -1 : static_cast<int>(Value(output)));
      if (!output.empty()) graph_.values[Value(output)].producer = static_cast<int>(graph_.nodes.size());
    }
    names_of_nodes_.push_back(outputs.empty() ? "" : outputs[0]);
    graph_.nodes.push_back(node);
    return *this;
  }
  size_t Value(const std::string& name) {
    const auto [entry, fresh] = values_.try_emplace(name, graph_.values.size());
    if (fresh) graph_.values.emplace_back();
    return entry->second;
  }
  RegionGraph graph_;
  Names names_of_nodes_;
  std::map<std::string, size_t> values_;
};

}  // namespace cudaep::graph
