// From a region's graph to what it runs: operators are created, weights copied to the device and packed.
#pragma once

#include "graph/exec/program.h"
#include "graph/exec/weight_store.h"
#include "graph/ir/graph.h"

namespace cudaep::graph {

// The graph's constants are read when the stream's work is done: the host may free them. Device memory comes from the
// stream's allocator of weights; what other regions have of `weights` is shared. What shape arithmetic came to is put
// on the device where kernels read it (graph/exec/uploads.h). Errors name the node or the constant.
Result<Program> BuildProgram(ir::Graph graph, const Settings& settings, WeightStore& weights, StreamContext& stream);

}  // namespace cudaep::graph
