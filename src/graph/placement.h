// Which nodes stay on the CPU although the provider has a kernel for them: the ones that compute shapes.
//
// Nodes without a kernel of ours run on the CPU in any case. Those that fit the rule are shape nodes too, so that a
// chain is not split around them, and what is no shape node is a *compute node*.
//
// A pure function over a small description of the graph, so that it can be tested with tables.
//
// Host values are small constants and outputs that a kernel of ours writes in host memory (Shape, Size). A *shape node*
// takes only host values and small constants, at least one of them not a constant, and each of its outputs ends in
// inputs that are read in host memory, in other shape nodes, or in a graph output. Values that come from a graph input
// never seed one. Where a graph consists of nothing else, nothing is moved: one device is better than two.
#pragma once

#include <cstddef>
#include <vector>

namespace cudaep::graph {

struct PlacementValue {
  int producer = -1;            // node, or -1 for inputs and constants of the graph
  bool small_constant = false;  // a constant of few elements
  bool host_output = false;     // its producer writes it in host memory
  bool graph_output = false;
};

struct PlacementUse {
  int value = -1;           // -1 for an absent optional input
  bool host_input = false;  // our kernel reads it in host memory
};

struct PlacementNode {
  bool claimed = false;  // we have a kernel that takes the node
  // We have none, no other provider took it, and all it reads are its inputs (control-flow nodes read more).
  bool falls_to_cpu = false;
  std::vector<PlacementUse> inputs;
  std::vector<int> outputs;  // values
};

struct PlacementGraph {
  std::vector<PlacementNode> nodes;  // in topological order
  std::vector<PlacementValue> values;
};

// For each node whether it is a shape node, to be left to the CPU. Never true for what another provider took.
std::vector<bool> FindShapeNodes(const PlacementGraph& graph);

}  // namespace cudaep::graph
