// Tensors that are moved about, once.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// Nodes one after the other that only move data become a part, its order and its dimensions, of which each copies at
// most once, so that the passes behind find heads as parts of rows. Products of rows take these as they lie, and what
// turned them is behind the product, or gone.
void ComposeViews(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
