// Layer normalisations that the products around them do where those have few rows (ops/gemm/norm_products.h).
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// LayerNormalization of the last axis, with constant scale and shift, of a product of 16 bits with a residual, where
// all that is read of it are products, or residuals of such products: the first product becomes MatMulNorm, those that
// read it NormedMatMul, com.microsoft's Attention one of these and the regions' own. All have constant weights of their
// own (short_products.h).
void MoveNormsIntoProducts(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
