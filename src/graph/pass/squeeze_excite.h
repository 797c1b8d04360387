// Squeeze-and-excitation, as in EfficientNet, MobileNetV3 and RegNet.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// The product of a channels-last image of 16 bits and a gate a channel: its pixels' means (GlobalAveragePool, or
// ReduceMean over them), two convolutions of one tap with constant weights, each with any activation, all read by the
// next alone. One SqueezeExcite of ops::kFusedDomain, which never writes what lies between.
void FuseSqueezeExcite(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
