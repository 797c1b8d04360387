// Transposes of codes around products of integers.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// QLinearMatMul, the Transposes that it alone reads and the one that alone reads it: one QuantizedMatMul, which moves
// nothing. Part of qdq.
void MultiplyTransposed(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
