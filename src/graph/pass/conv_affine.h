// What scales and shifts each channel of a convolution goes into its weights and bias.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// A Conv of constant weights takes over BatchNormalization of constant statistics, and Mul, Add and Sub of a constant
// for each channel or for all, each where nothing else reads what lies between. Weights are computed in double and
// rounded once; where a channel's would leave the normal range of their type the nodes stay. Products:
// product_affine.h.
void FoldIntoConvolutions(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
