// Shape arithmetic that the device reads too.
#pragma once

#include "graph/ir/graph.h"

namespace cudaep::graph {

// Puts a FromHost of ops::kFusedDomain behind each value that a node on the host makes and a kernel reads as data, for
// these readers. `once`: what ir::Node::once is of them.
void AddUploads(ir::Graph& graph, bool once);

}  // namespace cudaep::graph
