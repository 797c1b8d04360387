// Convolution on the host, for the stand-in of cuDNN: im2col and a matrix product, with a direct loop for depthwise.
//
// The plan is a value; running it allocates nothing: all scratch lies in the workspace. Runs on the calling thread.
#pragma once

#include "lib/dnn.h"

namespace cudaep::sim {

struct ConvTiling {
  bool depthwise = false;
  int64_t rows = 1, columns = 1;  // output rows (outer dimensions flattened) and columns of one tile
  size_t workspace_bytes = 0;
};

// The simulated library's engines, numbered as choices name them.
enum class ConvEngine : uint8_t { kTiles, kSmallTiles, kDirect };
inline constexpr int kConvEngineCount = 3;

// The largest useful tile whose scratch fits; kNotSupported when not even one output element does.
Result<ConvTiling> PlanConvolution(const dnn::ConvProblem& problem, ConvEngine engine, size_t workspace_limit_bytes);

void RunConvolution(const dnn::ConvProblem& problem, const ConvTiling& tiling, const dnn::ConvPointers& pointers);

}  // namespace cudaep::sim
