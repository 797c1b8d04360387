// Squeezed channels between two convolutions of one pixel, filled up to what tensor cores take.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// Part of the pass `channels_last`. Squeeze-and-excitation has any number of channels in its middle, and images whose
// channels are no whole packs do not lie channels last. So some of them come twice, each with half of its weights in
// the convolution that reads them: what is not finite goes the same way as before, which zeros would make NaN.
void FillPacks(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
