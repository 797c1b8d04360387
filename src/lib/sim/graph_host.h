// Interprets a graph of operations on the host, in double: the stand-in for fused kernels of cuDNN.
#pragma once

#include <span>

#include "lib/op_graph.h"

namespace cudaep::sim {

// `addresses` has one entry for each tensor of the graph, null for virtual tensors and scalars. Runs on the calling
// thread; the graph was checked.
void RunGraph(const dnn::OpGraph& graph, std::span<void* const> addresses);

}  // namespace cudaep::sim
