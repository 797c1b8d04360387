// Sums that are normalised.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// An Add of two tensors of the same dimensions and a normalisation of the sum become SkipLayerNormalization or
// SkipSimplifiedLayerNormalization; who else reads the sum gets it from there.
void FuseSkipNorms(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
