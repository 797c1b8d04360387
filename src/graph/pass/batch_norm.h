// BatchNormalization of constants: y = (x - mean) * factor + bias, for each channel.
#pragma once

#include <optional>
#include <vector>

#include "graph/pass/pass.h"

namespace cudaep::graph {

struct BatchNorm {
  std::vector<double> mean, factor, bias, variance;  // of equal size
};

// Nothing where the node is none, has other outputs as in training, a parameter for each position, or parameters that
// are no constants of one size.
std::optional<BatchNorm> BatchNormOf(const ir::Graph& graph, const ir::Node& node, const Settings& settings);

}  // namespace cudaep::graph
