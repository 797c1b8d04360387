// Products that a gate follows (kernels/gemm/gated_product.h).
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// Gated of a product of 16 bits with a constant matrix of weights, which nobody else reads: GatedMatMul.
void FuseGatedProducts(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
