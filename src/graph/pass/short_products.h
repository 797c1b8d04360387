// Products that have ways of their own where they have few rows, or many and GELU (ops/gemm/short_product.h).
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// Gives "own_weights" to products of 16 bits whose constant weights nobody else reads: MatMul of ops::kFusedDomain,
// which a MatMul or Gemm becomes, and the Attention that has such a product in it. Not where the model states that
// there are more rows, but for products with GELU and no residual. Convolutions of one pixel become such products
// (pixel_products.h).
void MarkShortProducts(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
