// Codes and constants of models with QuantizeLinear and DequantizeLinear.
#pragma once

#include "graph/ir/graph.h"

namespace cudaep::graph {

// Constants of one dimension or none that are dequantized, as the floats they stand for: biases, and what
// element-wise nodes read.
void DequantizeVectors(ir::Graph& graph);

// The same for weights that convolutions of floats alone read. Those of products, which may be most of a model, stay
// codes.
void DequantizeWeights(ir::Graph& graph);

// Codes of uint8 become the int8 that are less by 128, where all that read them dequantize and nothing else made them
// but QuantizeLinear: zero points are less by as much, so that nothing else changes.
void MakeCodesSigned(ir::Graph& graph);

// Nodes that dequantize the same codes by the same numbers are one.
void ShareNumbers(ir::Graph& graph);

}  // namespace cudaep::graph
