// dnn.h by cuDNN's graph backend: graph, engine search, choice, execution.
#include "lib/cuda/dnn_engines.h"
#include "lib/cuda/dnn_execute.h"
#include "lib/cuda/dnn_graph.h"
#include "lib/problem_check.h"

namespace cudaep::dnn {
namespace {

struct HandleTraits {
  using Type = cudnnHandle_t;
  static Type Null() { return nullptr; }
  static void Release(Type handle) { LoadedCudnn()->cudnnDestroy(handle); }
};

class CudnnConvHandle final : public Handle {
 public:
  explicit CudnnConvHandle(const CudnnApi& api) : api(api) {}
  const CudnnApi& api;
  device::Stream stream = nullptr;
  UniqueHandle<HandleTraits> handle;
};

class CudnnConvPlan final : public ConvPlan {
 public:
  CudnnConvPlan(ConvGraph graph, EnginePlan engine, bool fused_bias, bool separate_bias)
      : graph(std::move(graph)), engine(std::move(engine)), fused_bias(fused_bias) {
    workspace_bytes_ = this->engine.workspace_bytes;
    needs_separate_bias_ = separate_bias;
  }
  const ConvGraph graph;
  const EnginePlan engine;
  const bool fused_bias;
};

// More plans than this bring nothing but measuring time.
constexpr size_t kMostMeasured = 24;

Result<std::unique_ptr<const ConvPlan>> TryPlan(const CudnnConvHandle& handle, const ConvProblem& problem,
                                                Choice choice, size_t workspace_limit, bool fuse_bias) {
  const cudnnHandle_t raw = handle.handle.get();
  CUDAEP_ASSIGN_OR_RETURN(ConvGraph graph, BuildGraph(handle.api, raw, problem, fuse_bias));
  EngineSearch search = FindEngines(handle.api, raw, graph.graph, problem, workspace_limit,
                                    choice == Choice::kFastest ? kMostMeasured : 1);
  if (search.plans.empty()) {
    return NotSupported(ProblemText(problem), ": cuDNN ", lib::VersionText(handle.api.library.version),
                        " has no engine within ", workspace_limit, " bytes of workspace. Last refusal: ",
                        search.refusal.empty() ? "the heuristics suggest none" : search.refusal);
  }
  size_t best = 0;
  if (choice == Choice::kFastest && search.plans.size() > 1) {
    Result<size_t> fastest = FindFastest(handle.api, raw, handle.stream, problem, search.plans, fuse_bias);
    // Too little memory to measure in is no reason to fail: the heuristic's first choice stands.
    if (!fastest.ok() && fastest.status().code() != StatusCode::kOutOfMemory) return std::move(fastest).status();
    if (fastest.ok()) best = *fastest;
  }
  return std::unique_ptr<const ConvPlan>(std::make_unique<const CudnnConvPlan>(
      std::move(graph), std::move(search.plans[best]), fuse_bias, problem.bias && !fuse_bias));
}

Status CheckAlignment(const ConvPointers& pointers, bool fused_bias) {
  const auto bits = reinterpret_cast<uintptr_t>(pointers.x) | reinterpret_cast<uintptr_t>(pointers.w) |
                    reinterpret_cast<uintptr_t>(pointers.y) |
                    (fused_bias ? reinterpret_cast<uintptr_t>(pointers.bias) : 0);
  if ((bits & (kTensorAlignment - 1)) == 0) [[likely]]
    return Status::Ok();
  return InvalidArgument("convolution: every tensor must be aligned to ", kTensorAlignment, " bytes");
}

}  // namespace

Result<std::string> Version() {
  CUDAEP_ASSIGN_OR_RETURN(const CudnnApi* api, Cudnn());
  return StrCat("cuDNN ", lib::VersionText(api->library.version));
}

Result<std::unique_ptr<Handle>> CreateHandle() {
  CUDAEP_ASSIGN_OR_RETURN(const CudnnApi* api, Cudnn());
  auto handle = std::make_unique<CudnnConvHandle>(*api);
  CUDAEP_RETURN_IF_ERROR(ToStatus(*api, api->cudnnCreate(handle->handle.Receive()), "cudnnCreate"));
  return std::unique_ptr<Handle>(std::move(handle));
}

Status BindStream(Handle& handle, device::Stream stream) {
  auto& cudnn = static_cast<CudnnConvHandle&>(handle);
  CUDAEP_RETURN_IF_ERROR(ToStatus(cudnn.api,
                                  cudnn.api.cudnnSetStream(cudnn.handle.get(), reinterpret_cast<cudaStream_t>(stream)),
                                  "cudnnSetStream"));
  cudnn.stream = stream;
  return Status::Ok();
}

Result<std::unique_ptr<const ConvPlan>> MakePlan(Handle& handle, const ConvProblem& problem, Choice choice,
                                                 size_t workspace_limit_bytes) {
  CUDAEP_RETURN_IF_ERROR(CheckProblem(problem));
  const auto& cudnn = static_cast<const CudnnConvHandle&>(handle);
  if (problem.bias) {
    auto fused = TryPlan(cudnn, problem, choice, workspace_limit_bytes, true);
    if (fused.ok() || fused.status().code() == StatusCode::kDeviceLost) return fused;
  }
  return TryPlan(cudnn, problem, choice, workspace_limit_bytes, false);
}

Status Enqueue(Handle& handle, const ConvPlan& base_plan, const ConvPointers& pointers) {
  const auto& cudnn = static_cast<const CudnnConvHandle&>(handle);
  const auto& plan = static_cast<const CudnnConvPlan&>(base_plan);
  CUDAEP_RETURN_IF_ERROR(CheckAlignment(pointers, plan.fused_bias));
  return Execute(cudnn.api, cudnn.handle.get(), plan.engine.plan, pointers, plan.fused_bias);
}

}  // namespace cudaep::dnn
