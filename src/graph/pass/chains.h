// Element-wise nodes that are left, as few nodes: chains, of ops::kFusedDomain's `Elementwise`.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// A chain is two or more nodes whose results all have the same dimensions, each reading one before. It stands where its
// last node stood: who reads any of its results stands behind that, so chains never wait for each other. What it reads
// it read before and what it leaves it left before, so it moves no byte more than its nodes. A chain of the region's
// inputs alone that several nodes read, a mask say, goes to the front.
void FuseChains(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
