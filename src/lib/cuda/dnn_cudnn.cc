// dnn.h by cuDNN's graph backend: forms of a graph, engine search, choice, execution.
//
// A choice is "f<form>" for convolutions, then an engine's name (graph_engines.h); a saved plan has ";json" and the
// library's text behind that.
#include <charconv>

#include "core/strings.h"
#include "lib/conv_graph.h"
#include "lib/cuda/graph_execute.h"
#include "lib/problem_check.h"

namespace cudaep::dnn {
namespace {

constexpr std::string_view kJsonMark = ";json";

struct HandleTraits {
  using Type = cudnnHandle_t;
  static Type Null() { return nullptr; }
  static void Release(Type handle) { LoadedCudnn()->cudnnDestroy(handle); }
};

class CudnnHandle final : public Handle {
 public:
  explicit CudnnHandle(const CudnnApi& api) : api(api) {}
  const CudnnApi& api;
  UniqueHandle<HandleTraits> handle;
  PackCache packs;
};

// A graph with the engine that runs it.
struct Executable {
  OpGraph graph;
  DescribedGraph described;
  EnginePlan engine;
};

// The tensors that are passed by value.
std::vector<TensorIndex> ScalarsOf(const OpGraph& graph) {
  std::vector<TensorIndex> scalars;
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    if (graph.tensors[i].scalar) scalars.push_back(static_cast<TensorIndex>(i));
  }
  return scalars;
}

Result<std::string> SaveAs(const std::string& choice, const CudnnApi& api, const Executable& executable) {
  CUDAEP_ASSIGN_OR_RETURN(const std::string json, WriteJson(api, executable.engine));
  return StrCat(choice, kJsonMark, json);
}

// Engine 4, with any knobs, and one of which the library does not say which it is.
bool BeginsEarly(std::string_view engine) { return engine.empty() || engine == "e4" || engine.starts_with("e4k"); }

class CudnnConvPlan final : public ConvPlan {
 public:
  CudnnConvPlan(const CudnnApi& api, const ConvProblem& problem, ConvForm form, Executable executable)
      : api(api), executable(std::move(executable)) {
    workspace_bytes_ = this->executable.engine.workspace_bytes;
    remaining_ = RemainingOf(problem, form);
    choice_ = StrCat('f', static_cast<int>(form), this->executable.engine.name);
    has_bias = problem.epilogue.bias && !remaining_.bias;
    has_residual = problem.epilogue.residual() && !remaining_.residual();
    begins_early_ = BeginsEarly(this->executable.engine.name);
    takes_parts_ = problem.has_parts();
    scalars = ScalarsOf(this->executable.graph);
  }
  Result<std::string> Save() const override { return SaveAs(choice_, api, executable); }

  const CudnnApi& api;
  const Executable executable;
  bool has_bias = false, has_residual = false;
  std::vector<TensorIndex> scalars;
};

class CudnnGraphPlan final : public GraphPlan {
 public:
  CudnnGraphPlan(const CudnnApi& api, Executable executable) : api(api), executable(std::move(executable)) {
    workspace_bytes_ = this->executable.engine.workspace_bytes;
    choice_ = this->executable.engine.name;
    for (size_t i = 0; i < this->executable.graph.tensors.size(); ++i) {
      const auto index = static_cast<TensorIndex>(i);
      if (this->executable.graph.is_bound(index)) bound.push_back(UniqueId(index));
    }
    scalars = ScalarsOf(this->executable.graph);
  }
  Result<std::string> Save() const override { return SaveAs(choice_, api, executable); }

  const CudnnApi& api;
  const Executable executable;
  std::vector<int64_t> bound;
  std::vector<TensorIndex> scalars;
};

struct Found {
  DescribedGraph described;
  std::vector<EnginePlan> plans;  // at least one
};

// The graph's plans, at most `most`, or the reason why there is none.
Result<Found> Search(const CudnnHandle& handle, const OpGraph& graph, const std::string& title, size_t workspace_limit,
                     size_t most) {
  const cudnnHandle_t raw = handle.handle.get();
  Found found;
  CUDAEP_RETURN_IF_ERROR(Check(graph));
  auto described = DescribeGraph(handle.api, raw, graph);
  if (described.status().code() == StatusCode::kInvalidArgument) {  // well formed, but not for this library
    return NotSupported(title, ": ", described.status().message());
  }
  CUDAEP_RETURN_IF_ERROR(described.status());
  found.described = std::move(described).value();
  EngineSearch search = FindEngines(handle.api, raw, found.described, graph, workspace_limit, most);
  if (search.plans.empty() && !search.failure.ok()) return std::move(search.failure);
  if (search.plans.empty()) {
    return NotSupported(
        title, ": cuDNN ", lib::VersionText(handle.api.library.version), " has no engine within ", workspace_limit,
        " bytes of workspace. Last refusal: ", search.refusal.empty() ? "the heuristics suggest none" : search.refusal);
  }
  found.plans = std::move(search.plans);
  return found;
}

// By the first plan.
Result<Executable> SearchFirst(const CudnnHandle& handle, OpGraph graph, const std::string& title,
                               size_t workspace_limit) {
  CUDAEP_ASSIGN_OR_RETURN(Found found, Search(handle, graph, title, workspace_limit, 1));
  return Executable{std::move(graph), std::move(found.described), std::move(found.plans.front())};
}

// `text` is an engine's name, and JSON behind that in a saved plan.
Result<Executable> Pin(const CudnnHandle& handle, const OpGraph& graph, size_t workspace_limit, std::string_view text) {
  Executable out{graph, {}, {}};
  const cudnnHandle_t raw = handle.handle.get();
  const size_t mark = text.find(kJsonMark);
  if (mark != std::string_view::npos) {
    CUDAEP_ASSIGN_OR_RETURN(
        out.engine, ReadJson(handle.api, raw, graph, text.substr(mark + kJsonMark.size()), text.substr(0, mark)));
    if (out.engine.workspace_bytes <= workspace_limit) return out;
    return NotSupported("the saved plan wants ", out.engine.workspace_bytes, " bytes of workspace");
  }
  CUDAEP_ASSIGN_OR_RETURN(out.described, DescribeGraph(handle.api, raw, graph));
  CUDAEP_ASSIGN_OR_RETURN(out.engine, PinEngine(handle.api, raw, out.described, graph, workspace_limit, text));
  return out;
}

// The form of a convolution that a choice names; the rest of the text is the engine's.
Result<ConvForm> FormOf(const ConvProblem& problem, const std::string& choice, std::string_view* rest) {
  int form = -1;
  if (choice.starts_with('f')) {
    const auto read = std::from_chars(choice.data() + 1, choice.data() + choice.size(), form);
    *rest = std::string_view(read.ptr, static_cast<size_t>(choice.data() + choice.size() - read.ptr));
  }
  for (ConvForm offered : FormsOf(problem)) {
    if (static_cast<int>(offered) == form) return offered;
  }
  return InvalidArgument('\'', std::string_view(choice).substr(0, 40), "' names no form of ", ProblemText(problem));
}

Status CheckAlignment(const PackCache::Key& key) {
  uintptr_t bits = 0;
  for (size_t i = 0; i < key.count; ++i) bits |= reinterpret_cast<uintptr_t>(key.addresses[i]);
  if ((bits & (kTensorAlignment - 1)) == 0) [[likely]]
    return Status::Ok();
  return InvalidArgument("cuDNN: every tensor must be aligned to ", kTensorAlignment, " bytes");
}

void Bind(PackCache::Key* key, int64_t id, const void* address) {
  key->ids[key->count] = id;
  key->addresses[key->count++] = address;
}

// Their values lie in the plan's graph, to any alignment.
void BindScalars(PackCache::Key* key, const auto& plan) {
  for (TensorIndex index : plan.scalars) Bind(key, UniqueId(index), &*plan.executable.graph.at(index).scalar);
}

}  // namespace

Result<std::string> Version() {
  CUDAEP_ASSIGN_OR_RETURN(const CudnnApi* api, Cudnn());
  return StrCat("cuDNN ", lib::VersionText(api->library.version));
}

Result<std::unique_ptr<Handle>> CreateHandle() {
  CUDAEP_ASSIGN_OR_RETURN(const CudnnApi* api, Cudnn());
  auto handle = std::make_unique<CudnnHandle>(*api);
  CUDAEP_RETURN_IF_ERROR(ToStatus(*api, api->cudnnCreate(handle->handle.Receive()), "cudnnCreate"));
  return std::unique_ptr<Handle>(std::move(handle));
}

Status BindStream(Handle& handle, device::Stream stream) {
  auto& cudnn = static_cast<CudnnHandle&>(handle);
  return ToStatus(cudnn.api, cudnn.api.cudnnSetStream(cudnn.handle.get(), reinterpret_cast<cudaStream_t>(stream)),
                  "cudnnSetStream");
}

Result<std::vector<std::string>> Candidates(Handle& handle, const ConvProblem& problem, size_t workspace_limit_bytes,
                                            size_t most) {
  CUDAEP_RETURN_IF_ERROR(CheckProblem(problem));
  std::vector<std::string> choices;
  Epilogue remaining;
  for (ConvForm form : FormsOf(problem)) {
    if (!choices.empty() && RemainingOf(problem, form) != remaining) break;
    auto found = Search(static_cast<const CudnnHandle&>(handle), ConvolutionGraph(problem, form), ProblemText(problem),
                        workspace_limit_bytes, most - choices.size());
    if (found.status().code() == StatusCode::kDeviceLost) return std::move(found).status();
    if (!found.ok()) continue;
    remaining = RemainingOf(problem, form);
    for (const EnginePlan& plan : found->plans) {
      if (!plan.name.empty()) choices.push_back(StrCat('f', static_cast<int>(form), plan.name));
    }
    if (choices.size() >= most) break;
  }
  return choices;
}

Result<std::unique_ptr<const ConvPlan>> MakePlan(Handle& handle, const ConvProblem& problem,
                                                 size_t workspace_limit_bytes, const std::string& choice) {
  CUDAEP_RETURN_IF_ERROR(CheckProblem(problem));
  const auto& cudnn = static_cast<const CudnnHandle&>(handle);
  const auto plan_of = [&](ConvForm form, Executable executable) {
    return std::unique_ptr<const ConvPlan>(
        std::make_unique<const CudnnConvPlan>(cudnn.api, problem, form, std::move(executable)));
  };
  if (!choice.empty()) {
    std::string_view engine;
    CUDAEP_ASSIGN_OR_RETURN(const ConvForm form, FormOf(problem, choice, &engine));
    OpGraph graph = ConvolutionGraph(problem, form);
    CUDAEP_ASSIGN_OR_RETURN(Executable chosen, engine.empty() ? SearchFirst(cudnn, std::move(graph),
                                                                            ProblemText(problem), workspace_limit_bytes)
                                                              : Pin(cudnn, graph, workspace_limit_bytes, engine));
    return plan_of(form, std::move(chosen));
  }
  Status refusal;
  for (ConvForm form : FormsOf(problem)) {
    auto found = SearchFirst(cudnn, ConvolutionGraph(problem, form), ProblemText(problem), workspace_limit_bytes);
    if (found.ok()) return plan_of(form, std::move(found).value());
    refusal = std::move(found).status();
    if (refusal.code() != StatusCode::kNotSupported) break;
  }
  return refusal;
}

Status Enqueue(Handle& handle, const ConvPlan& base_plan, const ConvPointers& pointers) {
  auto& cudnn = static_cast<CudnnHandle&>(handle);
  const auto& plan = static_cast<const CudnnConvPlan&>(base_plan);
  PackCache::Key key{.plan = plan.executable.engine.number};
  // In the order of ConvolutionGraph's tensors.
  TensorIndex next = 0;
  Bind(&key, UniqueId(next++), pointers.x);
  Bind(&key, UniqueId(next++), pointers.w);
  if (plan.has_bias) Bind(&key, UniqueId(next++), pointers.bias);
  if (plan.has_residual) Bind(&key, UniqueId(next++), pointers.residual);
  Bind(&key, UniqueId(next), pointers.y);
  key.workspace = pointers.workspace;
  CUDAEP_RETURN_IF_ERROR(CheckAlignment(key));
  BindScalars(&key, plan);
  return Execute(cudnn.api, cudnn.handle.get(), cudnn.packs, plan.executable.engine, key);
}

Result<std::vector<std::string>> Candidates(Handle& handle, const OpGraph& graph, size_t workspace_limit_bytes,
                                            size_t most) {
  CUDAEP_ASSIGN_OR_RETURN(const Found found,
                          Search(static_cast<const CudnnHandle&>(handle), graph, "graph", workspace_limit_bytes, most));
  std::vector<std::string> choices;
  for (const EnginePlan& plan : found.plans) {
    if (!plan.name.empty()) choices.push_back(plan.name);
  }
  return choices;
}

Result<std::unique_ptr<const GraphPlan>> MakePlan(Handle& handle, const OpGraph& graph, size_t workspace_limit_bytes,
                                                  const std::string& choice) {
  const auto& cudnn = static_cast<const CudnnHandle&>(handle);
  Executable executable;
  if (!choice.empty()) {
    CUDAEP_ASSIGN_OR_RETURN(executable, Pin(cudnn, graph, workspace_limit_bytes, choice));
  } else {
    CUDAEP_ASSIGN_OR_RETURN(executable, SearchFirst(cudnn, graph, "graph", workspace_limit_bytes));
  }
  auto plan = std::make_unique<const CudnnGraphPlan>(cudnn.api, std::move(executable));
  if (plan->bound.size() + plan->scalars.size() > kMostBound) {
    return NotSupported("graph: more than ", kMostBound, " tensors and scalars");
  }
  return std::unique_ptr<const GraphPlan>(std::move(plan));
}

Status Enqueue(Handle& handle, const GraphPlan& base_plan, std::span<void* const> tensors, void* workspace) {
  auto& cudnn = static_cast<CudnnHandle&>(handle);
  const auto& plan = static_cast<const CudnnGraphPlan&>(base_plan);
  if (tensors.size() != plan.bound.size()) {
    return InvalidArgument("graph: ", tensors.size(), " addresses for ", plan.bound.size(), " tensors");
  }
  PackCache::Key key{.plan = plan.executable.engine.number};
  for (size_t i = 0; i < tensors.size(); ++i) Bind(&key, plan.bound[i], tensors[i]);
  CUDAEP_RETURN_IF_ERROR(CheckAlignment(key));
  BindScalars(&key, plan);
  key.workspace = workspace;
  return Execute(cudnn.api, cudnn.handle.get(), cudnn.packs, plan.executable.engine, key);
}

}  // namespace cudaep::dnn
