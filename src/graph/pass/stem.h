// A network's first convolution, whose image has few channels.
#pragma once

#include "graph/pass/layout_rules.h"

namespace cudaep::graph {

// A 16-bit Conv of constant weights and fewer than eight channels, channels-last: its strides become blocks of the
// image that lie in the channels (space to depth), or its channels are filled up to eight where the size of the result
// would differ. The node before it reads the image channels first. Nothing for other convolutions.
std::optional<TurnedNode> TurnStem(ir::Graph& graph, const ir::Node& node, const Settings& settings);

}  // namespace cudaep::graph
