#include "lib/cuda/dnn_engines.h"

#include <algorithm>
#include <array>

namespace cudaep::dnn {
namespace {

// Engine configurations by one heuristic; none when the heuristic knows none.
std::vector<Descriptor> QueryHeuristic(const CudnnApi& api, const Descriptor& graph, cudnnBackendHeurMode_t mode) {
  constexpr int64_t kMostConfigs = 128;
  std::vector<Descriptor> configs;
  auto heuristic = DescriptorBuilder(api, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "cuDNN heuristic")
                       .Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
                       .Set(CUDNN_ATTR_ENGINEHEUR_MODE, mode)
                       .Finish();
  if (!heuristic.ok()) return configs;
  int64_t count = 0;
  if (api.cudnnBackendGetAttribute(heuristic->get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                   &count, nullptr) != CUDNN_STATUS_SUCCESS) {
    return configs;
  }
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < std::min(count, kMostConfigs); ++i) {
    auto config = CreateDescriptor(api, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (!config.ok()) return {};
    raw.push_back(config->get());
    configs.push_back(std::move(config).value());
  }
  count = 0;
  if (raw.empty() ||
      api.cudnnBackendGetAttribute(heuristic->get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                   static_cast<int64_t>(raw.size()), &count, raw.data()) != CUDNN_STATUS_SUCCESS) {
    return {};
  }
  configs.resize(static_cast<size_t>(std::clamp<int64_t>(count, 0, static_cast<int64_t>(configs.size()))));
  return configs;
}

// Whether the engine behind a configuration computes as the problem asks; false when it does not say.
bool NumericsFit(const CudnnApi& api, const Descriptor& config, const ConvProblem& problem) {
  auto engine = CreateDescriptor(api, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  if (!engine.ok()) return false;
  cudnnBackendDescriptor_t raw = engine->get();
  int64_t count = 0;
  if (api.cudnnBackendGetAttribute(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                   &raw) != CUDNN_STATUS_SUCCESS) {
    return false;
  }
  std::array<cudnnBackendNumericalNote_t, 64> notes{};  // a newer library may know more than this header
  if (api.cudnnBackendGetAttribute(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                   static_cast<int64_t>(notes.size()), &count, notes.data()) != CUDNN_STATUS_SUCCESS) {
    return false;
  }
  const auto has = [&](cudnnBackendNumericalNote_t note) {
    return std::find(notes.begin(), notes.begin() + count, note) != notes.begin() + count;
  };
  if (problem.deterministic && has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return false;
  // On fp32 data the tensor cores compute in TF32.
  if (problem.type == DataType::kFloat && !problem.allow_tf32) {
    if (has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) || has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return false;
  }
  return !has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
}

// A finalised plan, or an error when the engine turns the problem down after all.
Result<EnginePlan> Finalize(const CudnnApi& api, cudnnHandle_t handle, Descriptor config) {
  EnginePlan out;
  CUDAEP_ASSIGN_OR_RETURN(out.plan,
                          DescriptorBuilder(api, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "cuDNN execution plan")
                              .Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle)
                              .Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config)
                              .Finish());
  int64_t bytes = 0, count = 0;
  CUDAEP_RETURN_IF_ERROR(ToStatus(api,
                                  api.cudnnBackendGetAttribute(out.plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                               CUDNN_TYPE_INT64, 1, &count, &bytes),
                                  "cuDNN workspace size"));
  out.config = std::move(config);
  out.workspace_bytes = static_cast<size_t>(bytes);
  return out;
}

}  // namespace

EngineSearch FindEngines(const CudnnApi& api, cudnnHandle_t handle, const Descriptor& graph, const ConvProblem& problem,
                         size_t workspace_limit_bytes, size_t limit) {
  EngineSearch search;
  // Mode A ranks; the fallback list is unranked, but holds engines that work where nothing else does.
  for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (Descriptor& config : QueryHeuristic(api, graph, mode)) {
      if (search.plans.size() == limit) return search;
      if (!NumericsFit(api, config, problem)) {
        search.refusal = "an engine computes in another precision or order than asked for";
        continue;
      }
      Result<EnginePlan> plan = Finalize(api, handle, std::move(config));
      if (!plan.ok()) {
        search.refusal = plan.status().message();
      } else if (plan->workspace_bytes > workspace_limit_bytes) {
        search.refusal = StrCat("an engine wants ", plan->workspace_bytes, " bytes of workspace");
      } else {
        search.plans.push_back(std::move(plan).value());
      }
    }
  }
  return search;
}

}  // namespace cudaep::dnn
