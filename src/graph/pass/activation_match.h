// Activations as models have them: one node, or a product of a value with its gate.
#pragma once

#include "core/epilogue.h"
#include "graph/ir/graph.h"

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

// The activation that reads the value and is no match all the same, by its node, and why; nothing where there is none.
struct MissedActivation {
  int node;
  const char* why;
};
std::optional<MissedActivation> MissActivation(const ir::Graph& graph, const ir::Uses& uses, int value,
                                               const Settings& settings);

// As nodes of ops::kFusedDomain have it (ops/activation_attributes.h).
void SetActivation(Activation activation, ActivationParameters parameters, ir::Node& node);

}  // namespace cudaep::graph
