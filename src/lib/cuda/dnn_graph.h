// A convolution problem as a cuDNN operation graph: one convolution node, and a pointwise addition for a fused bias.
//
// Ownership: a graph owns every descriptor it is made of and must outlive the plans made from it.
// Failure: kNotSupported or kInvalidArgument when the library refuses the problem outright.
#pragma once

#include <vector>

#include "lib/cuda/cudnn_descriptor.h"
#include "lib/dnn.h"

namespace cudaep::dnn {

// Names of the tensors in a graph and in the pointers of a call.
enum TensorId : int64_t { kTensorX = 'x', kTensorW = 'w', kTensorY = 'y', kTensorBias = 'b', kTensorVirtual = 'v' };

// What the library promises nothing below; every allocator gives more.
inline constexpr int64_t kTensorAlignment = 16;

struct ConvGraph {
  std::vector<Descriptor> parts;  // tensors, operators and operations
  Descriptor graph;
};

Result<ConvGraph> BuildGraph(const CudnnApi& api, cudnnHandle_t handle, const ConvProblem& problem, bool fuse_bias);

}  // namespace cudaep::dnn
