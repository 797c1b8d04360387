#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// Conv of codes of int8 with constant weights is a QuantizedConv: to the next codes, where a QuantizeLinear reads it,
// and over the sum with other codes up to the sum's, where that follows. A network's first one, of few channels, is a
// QuantizedStem to its codes where that takes it.
void ConvolveCodes(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
