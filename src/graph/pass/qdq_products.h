// Products of dequantized codes as products of codes.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// MatMul and Gemm of two dequantized operands: products of integers, whose sums are exact, and one multiplication by
// both scales. Of int8 and constant weights without zero points, for which libraries have kernels, a MatMulInteger and
// element-wise nodes, which chains join to what follows; of others QLinearMatMul or MatMulIntegerToFloat.
void MultiplyCodes(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
