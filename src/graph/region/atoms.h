// Nodes that are in one group, if they are in any: those that edges and ties make a cycle of.
#pragma once

#include <vector>

#include "graph/region/candidates.h"
#include "graph/region/links.h"
#include "graph/region/regions.h"

namespace cudaep::graph {

struct RegionAtoms {
  std::vector<int> of;                    // for each node its atom
  std::vector<std::vector<int>> members;  // of each atom, in the graph's order; edges go to atoms of smaller numbers
};

// The strong components of the edges and of the ties of shape nodes that are candidates, taken backwards.
RegionAtoms FindAtoms(const RegionGraph& graph, const RegionLinks& links, const RegionCandidates& candidates);

}  // namespace cudaep::graph
