// Rewriting of a region's graph before it is made a program.
//
// A pass turns nodes into fewer or faster ones that do the same. It never depends on which nodes the host gave to the
// region, and never fails: what it does not know it leaves alone. Each has its name in runtime/fusion.h.
#pragma once

#include "graph/ir/graph.h"

namespace cudaep::graph {

// What a pass did, or nearly did.
struct FusionNote {
  Fusion fusion;
  std::vector<std::string> sources;  // the model's nodes
  std::string missed = {};           // why not; empty: done
};
std::string Describe(const FusionNote& note);  // one line

struct PassContext {
  const Settings& settings;
  std::vector<FusionNote>& notes;

  // Whether there is a kernel that takes the node.
  bool IsSupported(const ir::Graph& graph, const ir::Node& node) const;
};

// The table of passes in their order, without those that the settings leave out. What they did and missed.
std::vector<FusionNote> RunPasses(ir::Graph& graph, const Settings& settings);

// Takes away nodes of whose outputs nobody reads one and none leaves. A region that nothing leaves stays as it is: one
// without nodes is none.
void RemoveDeadNodes(ir::Graph& graph);

// Nodes that are gone, for passes: marks, and removes all at once, keeping the order.
class NodeRemoval {
 public:
  explicit NodeRemoval(const ir::Graph& graph) : gone_(graph.nodes.size(), 0) {}
  void Mark(int node) { gone_[static_cast<size_t>(node)] = 1; }
  bool IsMarked(int node) const { return gone_[static_cast<size_t>(node)] != 0; }
  void Apply(ir::Graph& graph) const;

 private:
  std::vector<uint8_t> gone_;
};

}  // namespace cudaep::graph
