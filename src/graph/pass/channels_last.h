// Images of convolutions lie channels last, with layout changes only where other nodes read or make them.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// Nodes that read or make the same images are turned together, where that saves more than the changes at their borders
// cost: both are counted in elements moved. A convolution that gains channels-last (ops::ChannelsLastUseOf) would move
// its input and its result by itself; the model's own Transposes, as they stand around a ConvNeXt's depthwise
// convolutions and behind a patch embedding, are saved whatever the convolutions gain.
void TurnChannelsLast(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
