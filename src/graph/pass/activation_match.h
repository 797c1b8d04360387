// Activations as models have them: one node, or a product of a value with its gate.
#pragma once

#include "core/epilogue.h"
#include "graph/pass/rewrite.h"

namespace cudaep::graph {

struct ActivationMatch {
  Activation activation = Activation::kNone;
  ActivationParameters parameters = {};
  std::vector<int> nodes = {};  // in the order in which they stand; the last one makes the result
};

// What follows a value that nothing else reads, if it is an activation: Relu, Sigmoid, Tanh, Gelu, HardSwish,
// HardSigmoid, LeakyRelu, Swish and QuickGelu of alpha 1, Clip between constants, x Sigmoid(x), x HardSigmoid(x).
std::optional<ActivationMatch> MatchActivation(const ir::Graph& graph, const ir::Uses& uses, int value,
                                               const Settings& settings);

// The same for what a node makes; an activation that reads it and is no match all the same is noted.
std::optional<ActivationMatch> MatchActivationOf(const Rewriter& rewrite, int value);

// As nodes of ops::kFusedDomain have it (ops/activation_attributes.h).
void SetActivation(Activation activation, ActivationParameters parameters, ir::Node& node);

}  // namespace cudaep::graph
