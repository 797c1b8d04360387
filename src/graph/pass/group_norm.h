// Normalisation of groups of channels: as exporters spell it out, around a normalisation of instances, and as a node.
// One operator, with the scale and bias of channels and x * sigmoid(x) behind it, that takes images in either layout.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

void FuseGroupNorms(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
