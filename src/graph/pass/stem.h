// A network's first convolution, whose image has few channels.
#pragma once

#include "graph/pass/layout_rules.h"
#include "ops/conv/window.h"

namespace cudaep::graph {

// A 16-bit Conv of constant weights and fewer than eight channels, its result channels-last. StemConv where that takes
// it. Otherwise each of its windows along the rows of the image becomes one pixel, whose channels it then reads at
// once; where windows overlap too much for that, the channels are filled up to eight. It multiplies what the model's
// does, and zeros with zeros: what lies beside a window has no part in it, be it infinite. The node before it reads the
// image channels first. Nothing for other convolutions.
std::optional<TurnedNode> TurnStem(ir::Graph& graph, const ir::Node& node, const PassContext& context);

// Weights [out, channels, rows, columns], whose elements are `from`, with `channels_to` channels: the first ones are
// those of the columns that they `gather`, one column's after the other's, or the same ones.
ops::HostTensor RepackedWeights(DataType type, const std::vector<double>& from, const Shape& w, int64_t channels_to,
                                bool gather);

// Leaves a convolution the rows of its window, and gives the columns to a WindowsToChannels before it.
void SplitColumns(const ops::WindowAttributes& window, ir::Node& conv, ir::Node& before);

}  // namespace cudaep::graph
