// Convolutions that multiply each pixel by one matrix.
#pragma once

#include "graph/ir/attributes.h"

namespace cudaep::graph {

// The constant weights, [to, from, 1...], of a Conv of one group and no padding, whichever its layout; null for others.
const ops::TensorView* OneTapWeights(const ir::Graph& graph, const ir::Node& node, const Settings& settings);

}  // namespace cudaep::graph
