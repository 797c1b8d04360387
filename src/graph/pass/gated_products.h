// Products that a gate follows (kernels/gemm/gated_product.h, kernels/quant/gated_nbits.h).
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// Gated of a product of 16 bits with a constant matrix of weights, which nobody else reads: GatedMatMul. Products with
// weights of few bits and their gate: GatedMatMulNBits (gated_nbits.h), before Sigmoid and Mul are parts of chains.
void FuseGatedProducts(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
