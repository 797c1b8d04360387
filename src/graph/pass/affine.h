// Scales and shifts of channels by constants, and the weights that take them over.
#pragma once

#include <optional>
#include <vector>

#include "graph/ir/graph.h"

namespace cudaep::graph {

// y = scale * x + shift, for each channel.
struct Affine {
  std::vector<double> scale, shift;
};

// What a node does to `value` of `rank` dimensions with its channels before the last `behind` of them: Mul, Add and Sub
// of constants of one value a channel or one for all, and BatchNormalization for inference. Nothing for other nodes.
std::optional<Affine> AffineOf(const ir::Graph& graph, const ir::Node& node, int value, size_t channels, int rank,
                               int behind, const Settings& settings);

// Weights of channels, which are their first dimension or their last, and a bias of each.
struct ChannelWeights {
  std::vector<double> numbers, bias;
  bool channels_last = false;
};

// Whether every channel has a weight that is a normal number of `type`, and none has one beyond its range.
bool AreInRange(DataType type, const ChannelWeights& weights);

// False, with everything as it was, where a channel would vanish or leave the range of `type`.
bool Apply(const Affine& affine, DataType type, ChannelWeights& weights);

}  // namespace cudaep::graph
