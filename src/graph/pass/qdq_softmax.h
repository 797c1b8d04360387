// Softmax between codes.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// DequantizeLinear, Softmax and QuantizeLinear, each the only reader of the one before but for the first:
// QLinearSoftmax. Part of qdq.
void SoftmaxCodes(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
