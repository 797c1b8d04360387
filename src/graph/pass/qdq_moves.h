// Moving codes of 8 bits instead of the floats they stand for.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// Whether the node's first output is made of its first input's elements alone, which it does not compute with.
bool MovesElements(const ir::Node& node);

// Nodes that only move data, and MaxPool, whose input is dequantized, on the way to a node that quantizes or
// multiplies: they move codes, which are dequantized after. A QuantizeLinear that makes the same codes again goes.
// Not a bit changes.
void MoveCodes(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
