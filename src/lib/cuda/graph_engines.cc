#include "lib/cuda/graph_engines.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>

#include "core/strings.h"

namespace cudaep::dnn {
namespace {

constexpr int64_t kMostConfigs = 128;
constexpr int64_t kMostKnobs = 64;

// Descriptors that the library fills in, at most `most`; none when it has none. It is asked for their number first;
// where it does not tell (of the knobs of an engine, for one), room is made for all.
std::vector<Descriptor> ReadDescriptors(const CudnnApi& api, cudnnBackendDescriptor_t from,
                                        cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                        int64_t most) {
  std::vector<Descriptor> found;
  int64_t count = 0;
  const cudnnStatus_t counted =
      api.cudnnBackendGetAttribute(from, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr);
  if (counted != CUDNN_STATUS_SUCCESS || count <= 0) count = most;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < std::min(count, most); ++i) {
    auto descriptor = CreateDescriptor(api, type);
    if (!descriptor.ok()) return {};
    raw.push_back(descriptor->get());
    found.push_back(std::move(descriptor).value());
  }
  count = 0;
  if (raw.empty() ||
      api.cudnnBackendGetAttribute(from, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(raw.size()), &count,
                                   raw.data()) != CUDNN_STATUS_SUCCESS) {
    return {};
  }
  found.resize(static_cast<size_t>(std::clamp<int64_t>(count, 0, static_cast<int64_t>(found.size()))));
  return found;
}

std::vector<Descriptor> QueryHeuristic(const CudnnApi& api, const Descriptor& graph, cudnnBackendHeurMode_t mode,
                                       std::string* refusal) {
  auto heuristic = DescriptorBuilder(api, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "cuDNN heuristic")
                       .Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
                       .Set(CUDNN_ATTR_ENGINEHEUR_MODE, mode)
                       .Finish();
  if (!heuristic.ok()) {
    *refusal = heuristic.status().message();
    return {};
  }
  return ReadDescriptors(api, heuristic->get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                         kMostConfigs);
}

template <class Value>
bool Read(const CudnnApi& api, cudnnBackendDescriptor_t from, cudnnBackendAttributeName_t name,
          cudnnBackendAttributeType_t type, Value* value) {
  int64_t count = 0;
  return api.cudnnBackendGetAttribute(from, name, type, 1, &count, value) == CUDNN_STATUS_SUCCESS && count == 1;
}

// The engine behind a configuration; null when the library does not say.
Descriptor EngineOf(const CudnnApi& api, const Descriptor& config) {
  auto found = CreateDescriptor(api, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  if (!found.ok()) return {};
  cudnnBackendDescriptor_t raw = found->get();
  if (!Read(api, config.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, &raw)) return {};
  return std::move(found).value();
}

// Whether channels are innermost, and no strides of channels first could say the same but of a single channel.
bool IsChannelsLast(const GraphTensor& tensor) {
  return tensor.dims[1] == 1 || (tensor.strides[1] == 1 && tensor.strides[tensor.strides.rank() - 1] != 1);
}

// Whether an engine is known to be wrong for an operation (all seen with cuDNN 9.19 on an H200; engines' numbers are
// those of that major version).
bool IsWrong(int64_t engine, const OpGraph& graph, const GraphOp& op) {
  switch (engine) {
    case 4:
    case 7:
    case 52:
      // They take channels last alone. A y of one pixel with its channels first passes for that, and x then for the
      // same: other inputs, elements that are not written, misaligned addresses.
      return op.kind == OpKind::kConvolution &&
             !(IsChannelsLast(graph.at(op.a)) && IsChannelsLast(graph.at(op.result)));
    case 32:
      // Zeros of infinite sums of 16 bits, channels last and with a bias.
      return op.kind == OpKind::kConvolution && kFloat16Types.Contains(graph.at(op.b).type);
    case 50:
      // Rows that are not written, others that are shifted.
      return op.kind == OpKind::kConvolutionData && op.window.pad_begin != op.window.pad_end;
    default:
      return false;
  }
}

bool IsWrong(int64_t engine, const OpGraph& graph) {
  return std::ranges::any_of(graph.ops, [&](const GraphOp& op) { return IsWrong(engine, graph, op); });
}

// What an engine says of its numerics, and what is known of it.
class Notes {
 public:
  Notes(const CudnnApi& api, const Descriptor& engine) {
    if (!engine || !Read(api, engine.get(), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, &index_)) return;
    const auto most = static_cast<int64_t>(notes_.size());
    is_known_ = api.cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                             most, &count_, notes_.data()) == CUDNN_STATUS_SUCCESS;
    count_ = is_known_ ? std::clamp<int64_t>(count_, 0, most) : 0;
  }

  int64_t index() const { return index_; }  // of the engine; -1 where the library does not say
  bool Has(cudnnBackendNumericalNote_t note) const {
    return std::find(notes_.begin(), notes_.begin() + count_, note) != notes_.begin() + count_;
  }

  // Whether the engine computes as the graph asks; false when it does not say.
  bool Fit(const OpGraph& graph) const {
    if (IsWrong(index_, graph)) return false;
    if (!is_known_ || (graph.deterministic && Has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC))) return false;
    // On fp32 data the tensor cores compute in TF32.
    const bool fp32 = std::any_of(graph.tensors.begin(), graph.tensors.end(), [](const GraphTensor& tensor) {
      return !tensor.is_virtual && !tensor.scalar && tensor.type == DataType::kFloat;
    });
    if (fp32 && !graph.allow_tf32) {
      if (Has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) || Has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return false;
    }
    return !Has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
  }

 private:
  std::array<cudnnBackendNumericalNote_t, 64> notes_{};  // a newer library may know more than this header
  int64_t index_ = -1, count_ = 0;
  bool is_known_ = false;
};

// Whether engines that multiply without tensor cores are the last choice: for convolutions of 16 bits with whole packs
// of channels, among which heuristics rank such engines first now and then (112 to 672 channels, 6,272 pixels: 60 us
// where others take 7).
bool WantsTensorCores(const OpGraph& graph) {
  constexpr int64_t kPack = 8;
  return std::ranges::any_of(graph.ops, [&](const GraphOp& op) {
    if (op.kind != OpKind::kConvolution) return false;
    const GraphTensor& weights = graph.at(op.b);
    return kFloat16Types.Contains(weights.type) && weights.dims[0] % kPack == 0 && weights.dims[1] % kPack == 0;
  });
}

// The runtime engines for tensor cores of 9.0 and of 8.0. Heuristics rank the latter first now and then (cuDNN 9.19 on
// an H200: 32 to 32 channels, 3x3, 819,200 pixels: 150 us where the other takes 68; of others 1.9 times).
constexpr int64_t kRuntimeEngineIndex = 4, kOlderRuntimeEngine = 7;

// "e4k24=55" of a configuration; empty when the library does not say.
std::string NameOf(const CudnnApi& api, const Descriptor& engine, const Descriptor& config) {
  int64_t index = 0;
  if (!engine || !Read(api, engine.get(), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, &index)) return {};
  std::string name = StrCat('e', index);
  for (const Descriptor& choice : ReadDescriptors(api, config.get(), CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                                  CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, kMostKnobs)) {
    cudnnBackendKnobType_t knob{};
    int64_t value = 0;
    if (!Read(api, choice.get(), CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, &knob) ||
        !Read(api, choice.get(), CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, &value)) {
      return {};
    }
    name += StrCat('k', static_cast<int64_t>(knob), '=', value);
  }
  return name;
}

uint64_t NextNumber() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

Result<size_t> WorkspaceOf(const CudnnApi& api, const Descriptor& plan) {
  int64_t bytes = 0, count = 0;
  CUDAEP_RETURN_IF_ERROR(ToStatus(api,
                                  api.cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                               CUDNN_TYPE_INT64, 1, &count, &bytes),
                                  "cuDNN workspace size"));
  return static_cast<size_t>(bytes);
}

// A finalised plan, or an error when the engine turns the graph down after all.
Result<EnginePlan> Finalize(const CudnnApi& api, cudnnHandle_t handle, Descriptor engine, Descriptor config) {
  EnginePlan out;
  CUDAEP_ASSIGN_OR_RETURN(out.plan,
                          DescriptorBuilder(api, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "cuDNN execution plan")
                              .Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle)
                              .Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config)
                              .Finish());
  CUDAEP_ASSIGN_OR_RETURN(out.workspace_bytes, WorkspaceOf(api, out.plan));
  out.number = NextNumber();
  out.name = NameOf(api, engine, config);
  out.engine = std::move(engine);
  out.config = std::move(config);
  return out;
}

struct EngineName {
  int64_t engine = 0;
  std::vector<std::pair<int64_t, int64_t>> knobs;
};

Result<EngineName> ParseName(std::string_view text) {
  EngineName name;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](char mark, int64_t* value) {
    if (at == end || *at != mark) return false;
    const auto read = std::from_chars(at + 1, end, *value);
    at = read.ptr;
    return read.ec == std::errc();
  };
  bool good = number('e', &name.engine);
  while (good && at != end) {
    auto& [knob, value] = name.knobs.emplace_back();
    good = number('k', &knob) && number('=', &value);
  }
  if (!good) return InvalidArgument('\'', text, "' names no engine of cuDNN");
  return name;
}

}  // namespace

EngineSearch FindEngines(const CudnnApi& api, cudnnHandle_t handle, const DescribedGraph& described,
                         const OpGraph& graph, size_t workspace_limit_bytes, size_t limit) {
  EngineSearch search;
  struct Candidate {
    Descriptor engine, config;
  };
  const bool wants_tensor_cores = WantsTensorCores(graph);
  const auto try_out = [&](Candidate candidate) {
    Result<EnginePlan> plan = Finalize(api, handle, std::move(candidate.engine), std::move(candidate.config));
    if (!plan.ok()) {
      const StatusCode code = plan.status().code();
      if (code == StatusCode::kOutOfMemory || code == StatusCode::kDeviceLost) search.failure = plan.status();
      search.refusal = plan.status().message();
    } else if (plan->workspace_bytes > workspace_limit_bytes) {
      search.refusal = StrCat("an engine wants ", plan->workspace_bytes, " bytes of workspace");
    } else {
      search.plans.push_back(std::move(plan).value());
    }
  };
  const auto try_all = [&](std::vector<Candidate>& candidates) {
    for (Candidate& candidate : candidates) {
      if (search.plans.size() == limit) break;
      try_out(std::move(candidate));
    }
    candidates.clear();
  };
  // Mode A ranks; the fallback list is unranked, but holds engines that work where nothing else does.
  std::vector<Candidate> older, without_tensor_cores;
  for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    std::vector<Descriptor> configs = QueryHeuristic(api, described.graph, mode, &search.refusal);
    const bool has_newer = wants_tensor_cores && std::ranges::any_of(configs, [&](const Descriptor& config) {
                             return Notes(api, EngineOf(api, config)).index() == kRuntimeEngineIndex;
                           });
    for (Descriptor& config : configs) {
      if (search.plans.size() == limit) return search;
      Candidate candidate{EngineOf(api, config), std::move(config)};
      const Notes notes(api, candidate.engine);
      if (!notes.Fit(graph)) {
        search.refusal = "an engine computes otherwise than asked for";
      } else if (wants_tensor_cores && !notes.Has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) {
        without_tensor_cores.push_back(std::move(candidate));
      } else if (has_newer && notes.index() == kOlderRuntimeEngine) {
        older.push_back(std::move(candidate));
      } else {
        try_out(std::move(candidate));
      }
    }
    try_all(older);
  }
  try_all(without_tensor_cores);
  return search;
}

Result<EnginePlan> PinEngine(const CudnnApi& api, cudnnHandle_t handle, const DescribedGraph& described,
                             const OpGraph& graph, size_t workspace_limit_bytes, std::string_view name) {
  CUDAEP_ASSIGN_OR_RETURN(const EngineName wanted, ParseName(name));
  const auto refused = [&](const Status& why) {
    return why.code() == StatusCode::kDeviceLost ? why : NotSupported("engine ", name, ": ", why.message());
  };
  auto engine = DescriptorBuilder(api, CUDNN_BACKEND_ENGINE_DESCRIPTOR, "cuDNN engine")
                    .Set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, described.graph)
                    .Set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, wanted.engine)
                    .Finish();
  if (!engine.ok()) return refused(engine.status());
  if (!Notes(api, *engine).Fit(graph)) {
    return NotSupported("engine ", name, " computes otherwise than asked for");
  }
  std::vector<Descriptor> knobs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const auto& [knob, value] : wanted.knobs) {
    const auto type = static_cast<cudnnBackendKnobType_t>(knob);
    auto choice = DescriptorBuilder(api, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, "cuDNN knob")
                      .SetRaw(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type)
                      .Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value)
                      .Finish();
    if (!choice.ok()) return refused(choice.status());
    raw.push_back(choice->get());
    knobs.push_back(std::move(choice).value());
  }
  DescriptorBuilder config(api, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "cuDNN engine configuration");
  config.Set(CUDNN_ATTR_ENGINECFG_ENGINE, *engine);
  if (!raw.empty()) {
    config.SetRaw(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(raw.size()),
                  raw.data());
  }
  auto finished = config.Finish();
  if (!finished.ok()) return refused(finished.status());
  auto plan = Finalize(api, handle, std::move(engine).value(), std::move(finished).value());
  if (!plan.ok()) return refused(plan.status());
  if (plan->workspace_bytes > workspace_limit_bytes) {
    return NotSupported("engine ", name, " wants ", plan->workspace_bytes, " bytes of workspace");
  }
  plan->knobs = std::move(knobs);
  plan->name = name;
  return plan;
}

Result<std::string> WriteJson(const CudnnApi& api, const EnginePlan& plan) {
  int64_t bytes = 0;
  const auto status = api.cudnnBackendGetAttribute(plan.plan.get(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                                   CUDNN_TYPE_CHAR, 0, &bytes, nullptr);
  CUDAEP_RETURN_IF_ERROR(ToStatus(api, status, "cuDNN plan as JSON"));
  std::string json(static_cast<size_t>(bytes), '\0');
  int64_t written = 0;
  CUDAEP_RETURN_IF_ERROR(
      ToStatus(api,
               api.cudnnBackendGetAttribute(plan.plan.get(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                            CUDNN_TYPE_CHAR, bytes, &written, json.data()),
               "cuDNN plan as JSON"));
  json.resize(static_cast<size_t>(std::clamp<int64_t>(written, 0, bytes)));
  while (!json.empty() && json.back() == '\0') json.pop_back();
  return json;
}

Result<EnginePlan> ReadJson(const CudnnApi& api, cudnnHandle_t handle, const OpGraph& graph, std::string_view json,
                            std::string_view name) {
  CUDAEP_ASSIGN_OR_RETURN(const EngineName named, ParseName(name));
  if (IsWrong(named.engine, graph)) return NotSupported("engine ", name, " is wrong for this graph");
  EnginePlan out;
  CUDAEP_ASSIGN_OR_RETURN(out.plan,
                          DescriptorBuilder(api, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "cuDNN plan from JSON")
                              .Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle)
                              .SetRaw(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                      static_cast<int64_t>(json.size()), json.data())
                              .Finish());
  CUDAEP_ASSIGN_OR_RETURN(out.workspace_bytes, WorkspaceOf(api, out.plan));
  out.number = NextNumber();
  out.name = name;
  return out;
}

}  // namespace cudaep::dnn
