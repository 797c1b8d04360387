// Means of images between codes. Part of qdq.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// DequantizeLinear, GlobalAveragePool and QuantizeLinear, each the only reader of the one before but for the first:
// QLinearGlobalAveragePool. Nodes that only move data in front of the QuantizeLinear, such as Flatten, move codes.
void PoolCodes(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
