// Functions of 8-bit codes as tables of 256 codes.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// What lies between one DequantizeLinear and a QuantizeLinear, other pairs of them included, and reads nothing else but
// numbers, is an `Elementwise` that looks the codes up. It joins chains like any node.
void LookUpCodes(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
