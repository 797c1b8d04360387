// From a graph that the host has fused to a region's graph.
#pragma once

#include "abi/host.h"
#include "abi/region_claims.h"
#include "graph/ir/graph.h"

namespace cudaep::abi {

// `node` stands for the graph, and has its inputs and outputs in the order in which a call gives them. Constants are
// views of the host's memory, which lives as long as Compile. Nodes that `claims` evaluates are marked so.
Result<graph::ir::Graph> ImportRegion(const OrtGraph* graph, const OrtNode* node, const RegionClaims& claims,
                                      const Settings& settings);

}  // namespace cudaep::abi
