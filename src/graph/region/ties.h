// Shape nodes and their readers go into one group together. Where that cannot be, they go out of the candidates.
#pragma once

#include "graph/region/atoms.h"
#include "graph/region/candidates.h"
#include "graph/region/links.h"

namespace cudaep::graph {

// Takes out candidates until every atom of more than one node consists of candidates, and gives the atoms.
//
// A tied set (shape nodes and readers that ties connect) goes as a whole. One that a path leaves to come back through a
// node that is no candidate can never be in a group. Where several are in each other's way only together, the one with
// the fewest kDevice nodes goes; it comes back if at last nothing is in its way.
RegionAtoms ResolveTies(const RegionGraph& graph, const RegionLinks& links, RegionCandidates* candidates);

}  // namespace cudaep::graph
