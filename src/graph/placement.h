// Which nodes stay on the CPU although the provider has a kernel for them: the ones that compute shapes.
//
// Nodes without a kernel of ours run on the CPU in any case. Those that fit the rule are shape nodes too, so that a
// chain is not split around them, and what is no shape node is a *compute node*.
//
// A pure function over a small description of the graph, so that it can be tested with tables.
//
// Host values are small constants, outputs that a kernel of ours writes in host memory (Shape, Size), and what the host
// hands to a Loop's body there (iteration and condition). A *shape node* takes only host values and small constants, at
// least one of them not a constant, and what it makes is read in host memory, by other shape nodes, or is a graph
// output. What a kernel reads on the device alone is made there. A value wanted in both places is made in host memory:
// it is copied up, which nobody waits for, where the other way the host would wait for it. Other inputs of a graph
// never seed one. Where a graph consists of nothing else, nothing is moved, since one device is better than two, unless
// the host itself gave the values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cudaep::graph {

struct PlacementValue {
  std::string name = {};  // for messages
  int producer = -1;      // node, or -1 for inputs and constants of the graph
  bool constant = false;
  bool small_constant = false;  // a constant of few elements
  bool host_output = false;     // its producer writes it in host memory, or the host itself where there is none
  bool graph_output = false;
};

struct PlacementUse {
  int value = -1;           // -1 for an absent optional input
  bool host_input = false;  // our kernel reads it in host memory
};

struct PlacementNode {
  bool claimed = false;       // we have a kernel that takes the node
  bool falls_to_cpu = false;  // we have none, and no other provider took it
  bool collective = false;    // works with other ranks: never a shape node
  bool runs_graphs = false;   // control flow with nodes of ours inside: never a shape node
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
