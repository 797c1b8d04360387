// Runs execution plans, for real and for measuring.
//
// Threads: one thread per handle at a time; a plan may be shared.
#pragma once

#include <vector>

#include "lib/cuda/dnn_engines.h"
#include "lib/cuda/dnn_graph.h"

namespace cudaep::dnn {

// Queues the plan on the handle's stream; `bias` is ignored unless `fused_bias`.
Status Execute(const CudnnApi& api, cudnnHandle_t handle, const Descriptor& plan, const ConvPointers& pointers,
               bool fused_bias);

// Index of the fastest plan, measured on `stream` (the handle's) with scratch tensors of the problem's size. Plans that
// fail to run are passed over. Allocates, waits for the stream, and must not run inside a capture.
// kOutOfMemory when the scratch tensors do not fit.
Result<size_t> FindFastest(const CudnnApi& api, cudnnHandle_t handle, device::Stream stream, const ConvProblem& problem,
                           const std::vector<EnginePlan>& plans, bool fused_bias);

}  // namespace cudaep::dnn
