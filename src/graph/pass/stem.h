// A network's first convolution, whose image has few channels.
#pragma once

#include "graph/pass/layout_rules.h"

namespace cudaep::graph {

// A 16-bit Conv of constant weights and fewer than eight channels, its result channels-last. StemConv where that takes
// it. Otherwise each of its windows along the rows of the image becomes one pixel, whose channels it then reads at
// once; where windows overlap too much for that, the channels are filled up to eight. It multiplies what the model's
// does, and zeros with zeros: what lies beside a window has no part in it, be it infinite. The node before it reads the
// image channels first. Nothing for other convolutions.
std::optional<TurnedNode> TurnStem(ir::Graph& graph, const ir::Node& node, const PassContext& context);

}  // namespace cudaep::graph
