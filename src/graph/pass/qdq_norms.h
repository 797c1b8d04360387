// Layer normalisation between codes.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// DequantizeLinear, LayerNormalization along the last dimension and QuantizeLinear, which alone reads the norm:
// QuantizedLayerNormalization, with the sum of two DequantizeLinear in front, rounded to codes or not. Where others
// read the codes of the sum they stay, and are what it normalises. Part of qdq.
void NormalizeCodes(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
