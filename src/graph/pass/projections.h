// Products of the same tensor as one.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// Attention of three products of the same tensor with constant weights becomes com.microsoft's Attention, which makes
// one product with all three weights side by side. The regions' own Attention reads the parts of such a product, also
// of one that the model has. activation(a) * b of two products a and b of the same tensor, or of the halves of one,
// becomes Gated of one product.
void MergeProjections(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
