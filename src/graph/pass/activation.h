// Activations that exporters spell out.
#pragma once

#include "core/epilogue.h"
#include "graph/pass/pass.h"

namespace cudaep::graph {

// GELU by erf and by tanh, and x * sigmoid(alpha * x), in any order of their products, become Gelu or QuickGelu.
void FuseActivations(ir::Graph& graph, const PassContext& context);

// What a node does, where products can do it too; kNone for anything else.
Activation ActivationOf(const ir::Node& node);

}  // namespace cudaep::graph
