// The engines that can run an operation graph, in the library's own order, as finalised execution plans.
//
// Filters, all before anything runs: numerical notes (TF32, determinism, accumulation), the workspace limit, and
// whether the plan can be finalised at all on this device.
#pragma once

#include <string>
#include <vector>

#include "lib/cuda/cudnn_descriptor.h"
#include "lib/dnn.h"

namespace cudaep::dnn {

struct EnginePlan {
  Descriptor config;  // the plan refers to it
  Descriptor plan;
  size_t workspace_bytes = 0;
};

struct EngineSearch {
  std::vector<EnginePlan> plans;
  std::string refusal;  // what the last engine that was turned down said, for error texts
};

// At most `limit` plans; none when no engine passes the filters.
EngineSearch FindEngines(const CudnnApi& api, cudnnHandle_t handle, const Descriptor& graph, const ConvProblem& problem,
                         size_t workspace_limit_bytes, size_t limit);

}  // namespace cudaep::dnn
