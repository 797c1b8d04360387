// A graph of operations as cuDNN's descriptors.
//
// Ownership: a DescribedGraph owns every descriptor it is made of and must outlive the plans made from it.
// Failure: kNotSupported or kInvalidArgument when the library refuses the graph outright.
#pragma once

#include <vector>

#include "lib/cuda/cudnn_descriptor.h"
#include "lib/op_graph.h"

namespace cudaep::dnn {

// The library's name of a tensor, in the graph and in the pointers of a call.
inline int64_t UniqueId(TensorIndex index) { return index + 1; }

struct DescribedGraph {
  std::vector<Descriptor> parts;  // tensors, operators and operations
  Descriptor graph;
};

Result<DescribedGraph> DescribeGraph(const CudnnApi& api, cudnnHandle_t handle, const OpGraph& graph);

}  // namespace cudaep::dnn
