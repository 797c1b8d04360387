// Normalisation of rows that exporters spell out.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// (x - mean) / sqrt(variance + epsilon) * scale [+ bias] over the last axis becomes LayerNormalization, and
// x / sqrt(mean square [+ epsilon]) * scale becomes RMSNormalization; with the casts to float around the statistics
// that exports of 16-bit models have. A scale of another shape, or none, is left to the nodes behind an operator of
// ones.
void FuseNorms(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
