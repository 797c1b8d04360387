// The engines that can run a graph of operations, as finalised execution plans.
//
// Filters, all before anything runs: numerical notes (TF32, determinism, accumulation), the workspace limit, and
// whether the plan can be finalised at all on this device.
//
// An engine is named by text, "e<engine>" followed by "k<knob>=<value>" for each knob that is not left to the library,
// e.g. "e4k24=55". A plan as JSON is kept beside that name, not in it.
#pragma once

#include <string>
#include <vector>

#include "lib/cuda/graph_descriptors.h"

namespace cudaep::dnn {

struct EnginePlan {
  Descriptor engine, config;  // the plan refers to them; absent in one that was read from JSON
  std::vector<Descriptor> knobs;
  Descriptor plan;
  uint64_t number = 0;  // of no other plan of the process
  size_t workspace_bytes = 0;
  std::string name;  // "e4k24=55"
};

struct EngineSearch {
  std::vector<EnginePlan> plans;
  std::string refusal;  // what the last engine that was turned down said, for error texts
  Status failure;       // when there are no plans for a reason that may pass, or the device is lost
};

// In the library's order, but what tensor cores are made for first by those; at most `limit` plans, none when no engine
// passes the filters.
EngineSearch FindEngines(const CudnnApi& api, cudnnHandle_t handle, const DescribedGraph& described,
                         const OpGraph& graph, size_t workspace_limit_bytes, size_t limit);

// The engine of this name. kInvalidArgument for text that is no name; kNotSupported when it cannot run the graph, not
// within the limit, or not with the numerics that the graph asks for.
Result<EnginePlan> PinEngine(const CudnnApi& api, cudnnHandle_t handle, const DescribedGraph& described,
                             const OpGraph& graph, size_t workspace_limit_bytes, std::string_view name);

// A plan as the library writes it, with whatever it compiled. `name` is what the plan of the graph is called:
// kNotSupported where its engine is known to be wrong for that by now.
Result<std::string> WriteJson(const CudnnApi& api, const EnginePlan& plan);
Result<EnginePlan> ReadJson(const CudnnApi& api, cudnnHandle_t handle, const OpGraph& graph, std::string_view json,
                            std::string_view name);

}  // namespace cudaep::dnn
