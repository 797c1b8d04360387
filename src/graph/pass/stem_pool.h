// The pool behind a network's first convolution.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// StemConv or QuantizedStem and a MaxPool of 3 x 3 windows, two apart, that alone reads its result: one node of that
// operator, which never writes the larger image.
void FuseStemPools(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
