// One pass at work: looks through its Matcher, and puts nodes in the place of others.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "graph/pass/match.h"
#include "graph/pass/pass.h"

namespace cudaep::graph {

class Rewriter {
 public:
  Rewriter(ir::Graph& graph, const PassContext& context, Fusion fusion)
      : graph(graph), match(graph), context_(context), fusion_(fusion), taken_(graph.nodes.size(), 0) {}

  ir::Graph& graph;
  const Matcher match;  // of the graph as it was; replaced nodes make the same values as before

  const Settings& settings() const { return context_.settings; }
  int node_count() const { return static_cast<int>(graph.nodes.size()); }
  ir::Node& node(int index) const { return graph.nodes[static_cast<size_t>(index)]; }

  // Another operator with the outputs of a node, to be filled in.
  ir::Node Instead(int index, const char* domain, const char* op, int version) const;
  // Puts it there, unless no kernel takes it. The nodes that it does are those between its inputs and its outputs.
  bool Replace(int index, ir::Node fused) const { return Replace(index, std::move(fused), {}); }
  // The same with nodes in front of it, which make new values for it; between theirs and its inputs, then.
  bool Replace(int index, ir::Node fused, std::vector<ir::Node> before) const;
  // A node that makes what `value` is already: its readers read that, which `match` does not know of. Not for what
  // leaves the region.
  void Bypass(int index, int value) const;
  // The same of a node whose part another one has taken over, which notes it.
  void Redirect(int index, int value) const;
  // Puts the nodes in front into the graph. To be called once, last: indices change.
  void PlaceNodesInFront() const;
  // Whether a node was replaced, or is part of what one was replaced by.
  bool IsTaken(int index) const { return taken_[static_cast<size_t>(index)] != 0; }
  // A pattern that was nearly there, by its last node.
  void Miss(int index, std::string why) const;

 private:
  std::vector<int> NodesBetween(const std::vector<int>& inputs, const std::vector<int>& outputs) const;

  const PassContext& context_;
  Fusion fusion_;
  mutable std::vector<uint8_t> taken_;
  mutable std::map<int, std::vector<ir::Node>> before_;
};

}  // namespace cudaep::graph
