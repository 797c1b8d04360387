// Batch normalisations of what a convolution reads, in its weights and bias.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// A Conv of constant weights without padding, which alone reads a BatchNormalization of constant statistics, reads what
// that normalises. Part of FoldIntoConvolutions, under the same rules for weights; and means may not be so far from 0
// that the weights' roundings show more than those of the normalised channels.
void FoldIntoReaders(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
