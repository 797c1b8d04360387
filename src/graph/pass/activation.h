// Activations that exporters spell out.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// GELU by erf and by tanh, and x * sigmoid(alpha * x), in any order of their products, become Gelu or QuickGelu.
void FuseActivations(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
