// Conv -> Add -> activation becomes one convolution with an epilogue.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// Joins to a Conv, each where nothing else reads what lies between: an Add of a tensor of the same dimensions, and an
// activation, in the model's order (behind the activation only where engines are compiled for it). The result is `Conv`
// of ops::kFusedDomain.
void FuseConvEpilogues(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
