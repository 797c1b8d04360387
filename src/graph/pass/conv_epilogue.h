// Conv -> Add -> activation becomes one convolution with an epilogue.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// Joins to a Conv, each where nothing else reads what lies between: an Add of a tensor of the same dimensions, and an
// activation. The model's order stands: Conv, Add, activation. The result is `Conv` of ops::kFusedDomain.
void FuseConvEpilogues(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
