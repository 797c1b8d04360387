// Matrix products take what follows them.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// Joins to a MatMul or Gemm, each where nothing else reads what lies between: the Add of a vector of the last
// dimension, the Add of a tensor of the result's dimensions, and then an activation. The result is `MatMul` of
// ops::kFusedDomain.
void FuseProductEpilogues(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
