// Products of the same tensor as one.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// Attention of three products of the same tensor with constant weights becomes com.microsoft's Attention, which makes
// one product with all three weights side by side.
void MergeProjections(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
