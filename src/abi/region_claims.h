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
  struct Region {
    std::vector<int> nodes;      // indices in the view
    std::vector<int> evaluated;  // of them, shape arithmetic that is evaluated inside
  };
  std::vector<Region> Find(const GraphView& view, const std::vector<bool>& shape_nodes);

  // Whether the node that makes this value is shape arithmetic of a region, by the last answer of Find.
  bool IsEvaluated(const std::string& output) const { return evaluated_.contains(output); }

 private:
  std::unordered_set<std::string> evaluated_;
};

}  // namespace cudaep::abi
