// Which nodes of a graph are claimed together, to be compiled to one region each.
//
// Threads: the host partitions the graphs of a session on one thread.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "abi/graph_view.h"

namespace cudaep::abi {

class RegionClaims {
 public:
  // Indices of nodes in `view`, a list for each region; shape nodes among them are evaluated inside it.
  std::vector<std::vector<int>> Find(const GraphView& view, const std::vector<bool>& shape_nodes);

  // Whether the node that makes this value is shape arithmetic of a region, by the last answer of Find.
  bool IsEvaluated(const std::string& output) const { return evaluated_.contains(output); }

 private:
  std::unordered_set<std::string> evaluated_;
};

}  // namespace cudaep::abi
