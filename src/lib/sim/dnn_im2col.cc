// dnn.h on the simulated device: conv_host.h and graph_host.h in the queue of a stream. The runtime engine is the first
// under another name, for rows of pixels without a neighbourhood.
#include <algorithm>
#include <cstring>
#include <memory>

#include "core/strings.h"
#include "device/sim/sim.h"
#include "lib/conv_graph.h"
#include "lib/dnn.h"
#include "lib/problem_check.h"
#include "lib/sim/conv_host.h"
#include "lib/sim/graph_host.h"
#include "lib/sim/host_gemm.h"

namespace cudaep::dnn {
namespace {

using sim::ConvEngine;

constexpr std::string_view kGraphChoice = "interpreter";

class SimHandle final : public Handle {
 public:
  device::Stream stream = nullptr;
  bool bound = false;
};

std::string NameOf(ConvEngine engine) { return StrCat("host", static_cast<int>(engine)); }

class SimPlan final : public ConvPlan {
 public:
  SimPlan(const ConvProblem& part, const sim::ConvTiling& tiling, std::string name, const Epilogue& remaining)
      : problem(part), tiling(tiling) {
    workspace_bytes_ = tiling.workspace_bytes;
    choice_ = std::move(name);
    remaining_ = remaining;
    begins_early_ = choice_ == kRuntimeEngine;
    takes_parts_ = part.has_parts();
  }
  // What the library compiled, for those who keep plans: nothing, but a text of its own.
  Result<std::string> Save() const override { return StrCat(choice_, ";saved"); }

  ConvProblem problem;  // what the plan does of the whole
  const sim::ConvTiling tiling;
};

class SimGraphPlan final : public GraphPlan {
 public:
  explicit SimGraphPlan(const OpGraph& graph) : graph(graph) {
    choice_ = kGraphChoice;
    for (size_t i = 0; i < graph.tensors.size(); ++i) {
      if (graph.is_bound(static_cast<TensorIndex>(i))) bound.push_back(i);
    }
  }
  const OpGraph graph;
  std::vector<size_t> bound;
};

Status CheckAlignment(std::span<const void* const> pointers) {
  for (const void* pointer : pointers) {
    if (reinterpret_cast<uintptr_t>(pointer) % kTensorAlignment != 0) {
      return InvalidArgument("simulated cuDNN: every tensor must be aligned to ", kTensorAlignment, " bytes");
    }
  }
  return Status::Ok();
}

// Channels of a part's pixels, `pitch` elements apart, in a tensor of their own (the part's where it is none), and
// back.
class PartCopy {
 public:
  PartCopy(const ConvProblem& p, const Spatial& size, int64_t channels, int64_t pitch)
      : row_bytes_(static_cast<size_t>(channels) * SizeOf(p.types.a)),
        pitch_bytes_(static_cast<size_t>(pitch) * SizeOf(p.types.a)),
        rows_(static_cast<size_t>(p.batch)) {
    for (int d = 0; d < p.spatial_rank; ++d) rows_ *= static_cast<size_t>(size[static_cast<size_t>(d)]);
    if (pitch != 0) copy_.resize(rows_ * row_bytes_);
  }
  const void* Take(const void* part) {
    if (part == nullptr || copy_.empty()) return part;
    for (size_t row = 0; row < rows_; ++row) {
      std::memcpy(copy_.data() + row * row_bytes_, static_cast<const std::byte*>(part) + row * pitch_bytes_,
                  row_bytes_);
    }
    return copy_.data();
  }
  void* To(void* part) { return copy_.empty() ? part : copy_.data(); }
  void PutBack(void* part) const {
    for (size_t row = 0; row < rows_ && !copy_.empty(); ++row) {
      std::memcpy(static_cast<std::byte*>(part) + row * pitch_bytes_, copy_.data() + row * row_bytes_, row_bytes_);
    }
  }

 private:
  size_t row_bytes_, pitch_bytes_, rows_;
  std::vector<std::byte> copy_;
};

// Of tensors without gaps, which `at` has, but for parts.
void RunOnParts(const ConvProblem& p, const sim::ConvTiling& tiling, ConvPointers at) {
  if (!p.has_parts()) return cudaep::sim::RunConvolution(p, tiling, at);
  PartCopy x(p, p.in, p.in_channels, p.x_pitch), residual(p, p.out, p.out_channels, p.residual_pitch),
      y(p, p.out, p.out_channels, p.y_pitch);
  void* const result = at.y;
  at.x = x.Take(at.x);
  at.residual = residual.Take(at.residual);
  at.y = y.To(result);
  cudaep::sim::RunConvolution(WithoutParts(p), tiling, at);
  y.PutBack(result);
}

// Of the problem, or what of it a form fuses. The direct engine fuses a bias at most.
Result<std::unique_ptr<const SimPlan>> PlanOf(ConvProblem problem, ConvEngine engine, size_t workspace_limit,
                                              std::string name, const ConvForm* form = nullptr) {
  CUDAEP_ASSIGN_OR_RETURN(const sim::ConvTiling tiling, sim::PlanConvolution(problem, engine, workspace_limit));
  Epilogue remaining;
  if (engine == ConvEngine::kDirect) {
    remaining = problem.epilogue;
    remaining.bias = false;
  }
  if (form != nullptr) remaining = RemainingOf(problem, *form);
  if (!remaining.empty()) problem.epilogue = {.bias = problem.epilogue.bias && !remaining.bias};
  return std::make_unique<const SimPlan>(problem, tiling, std::move(name), remaining);
}

bool RuntimeEngineTakes(const ConvProblem& p) {
  const bool is_row = p.spatial_rank == 2 && p.in[0] == 1 && p.kernel[0] == 1 && p.kernel[1] == 1;
  return is_row && p.layout == Layout::kChannelsLast && p.direction == Direction::kForward && p.groups == 1 &&
         kFloat16Types.Contains(p.types.a) && std::ranges::count(FormsOf(p), ConvForm::kRedundant) != 0;
}

// Depthwise convolutions are left to the direct engine as far as it fuses as much.
constexpr ConvEngine kOrder[] = {ConvEngine::kDirect, ConvEngine::kTiles, ConvEngine::kSmallTiles};

Result<std::vector<std::unique_ptr<const SimPlan>>> PlansOf(const ConvProblem& problem, size_t workspace_limit,
                                                            size_t most) {
  CUDAEP_RETURN_IF_ERROR(CheckProblem(problem));
  std::vector<std::unique_ptr<const SimPlan>> plans;
  Status refusal;
  for (ConvEngine engine : kOrder) {
    if (plans.size() == most) break;
    auto plan = PlanOf(problem, engine, workspace_limit, NameOf(engine));
    if (!plan.ok()) {
      refusal = std::move(plan).status();
    } else if ((*plan)->remaining().empty()) {
      plans.push_back(std::move(plan).value());
    }
  }
  if (plans.empty()) return refusal;
  return plans;
}

}  // namespace

Result<std::string> Version() { return std::string("im2col (simulated cuDNN)"); }

Result<std::unique_ptr<Handle>> CreateHandle() {
  if (!sim::HostCpuSupported()) return NotSupported("The simulated device needs a processor with AVX2 and FMA.");
  return std::unique_ptr<Handle>(std::make_unique<SimHandle>());
}

Status BindStream(Handle& handle, device::Stream stream) {
  auto& sim = static_cast<SimHandle&>(handle);
  sim.stream = stream;
  sim.bound = true;
  return Status::Ok();
}

Result<std::vector<std::string>> Candidates(Handle&, const ConvProblem& problem, size_t workspace_limit_bytes,
                                            size_t most) {
  CUDAEP_ASSIGN_OR_RETURN(const auto plans, PlansOf(problem, workspace_limit_bytes, most));
  std::vector<std::string> choices;
  choices.reserve(plans.size());
  for (const auto& plan : plans) choices.push_back(plan->choice());
  return choices;
}

Result<std::unique_ptr<const ConvPlan>> MakePlan(Handle&, const ConvProblem& problem, size_t workspace_limit_bytes,
                                                 const std::string& choice) {
  CUDAEP_RETURN_IF_ERROR(CheckProblem(problem));
  if (choice.empty()) {
    CUDAEP_ASSIGN_OR_RETURN(auto plans, PlansOf(problem, workspace_limit_bytes, 1));
    return std::unique_ptr<const ConvPlan>(std::move(plans.front()));
  }
  const std::string_view name = std::string_view(choice).substr(0, choice.find(';'));
  if (name == kRuntimeEngine) {
    if (!RuntimeEngineTakes(problem)) return NotSupported(ProblemText(problem), ": not for the runtime engine");
    CUDAEP_ASSIGN_OR_RETURN(auto plan, PlanOf(problem, ConvEngine::kTiles, workspace_limit_bytes, std::string(name)));
    return std::unique_ptr<const ConvPlan>(std::move(plan));
  }
  for (const ConvForm form : FormsOf(problem)) {
    if (name != FormChoice(form)) continue;
    CUDAEP_ASSIGN_OR_RETURN(auto plan,
                            PlanOf(problem, ConvEngine::kTiles, workspace_limit_bytes, FormChoice(form), &form));
    return std::unique_ptr<const ConvPlan>(std::move(plan));
  }
  for (ConvEngine engine : kOrder) {
    if (name != NameOf(engine)) continue;
    CUDAEP_ASSIGN_OR_RETURN(auto plan, PlanOf(problem, engine, workspace_limit_bytes, NameOf(engine)));
    return std::unique_ptr<const ConvPlan>(std::move(plan));
  }
  return InvalidArgument('\'', choice, "' names no engine of the simulated cuDNN");
}

Status Enqueue(Handle& handle, const ConvPlan& base_plan, const ConvPointers& pointers) {
  const auto& sim = static_cast<const SimHandle&>(handle);
  const auto& plan = static_cast<const SimPlan&>(base_plan);
  if (!sim.bound) return FailedPrecondition(ProblemText(plan.problem), ": the handle is not bound to a stream");
  if (plan.workspace_bytes() != 0 && pointers.workspace == nullptr) {
    return InvalidArgument(ProblemText(plan.problem), ": the plan needs a workspace, but none was given");
  }
  // What is not used repeats x, so that lists stay of fixed size.
  const void* reads[] = {pointers.x, pointers.w, plan.problem.epilogue.bias ? pointers.bias : pointers.x,
                         plan.problem.epilogue.residual() ? pointers.residual : pointers.x};
  void* writes[] = {pointers.y, pointers.workspace};
  CUDAEP_RETURN_IF_ERROR(CheckAlignment(reads));
  const void* const written[] = {writes[0], writes[1]};
  CUDAEP_RETURN_IF_ERROR(CheckAlignment(written));
  // What it reads before the kernel in front of it has run; empty: it read nothing then. One call's: a graph's replays
  // on two streams at a time would share it.
  struct Early {
    std::vector<std::byte> bias, residual;
  };
  auto early = std::make_shared<Early>();
  std::function<void()> ahead;
  if (plan.begins_early()) {
    const ConvProblem& p = plan.problem;
    const size_t bias_bytes = static_cast<size_t>(p.out_channels) * SizeOf(p.types.c);
    const int64_t between = p.residual_pitch == 0 ? p.out_channels : p.residual_pitch;
    size_t bytes = static_cast<size_t>(between * p.batch) * SizeOf(p.types.c);
    for (int d = 0; d < p.spatial_rank; ++d) bytes *= static_cast<size_t>(p.out[static_cast<size_t>(d)]);
    bytes -= static_cast<size_t>(between - p.out_channels) * SizeOf(p.types.c);  // which is not behind the last pixel
    ahead = [early, pointers, epilogue = p.epilogue, bias_bytes, bytes] {
      const auto copy = [](const void* from, size_t count) {
        const auto* const first = static_cast<const std::byte*>(from);
        return std::vector<std::byte>(first, first + count);
      };
      if (epilogue.bias) early->bias = copy(pointers.bias, bias_bytes);
      if (epilogue.residual()) early->residual = copy(pointers.residual, bytes);
    };
  }
  return device::sim::EnqueueHostWork(
      sim.stream, ProblemText(plan.problem),
      [problem = plan.problem, tiling = plan.tiling, pointers, early] {
        ConvPointers at = pointers;
        if (!early->bias.empty()) at.bias = early->bias.data();
        if (!early->residual.empty()) at.residual = early->residual.data();
        RunOnParts(problem, tiling, at);
        *early = {};
      },
      reads, std::span<void* const>(writes, plan.workspace_bytes() != 0 ? 2 : 1), std::move(ahead));
}

Result<std::vector<std::string>> Candidates(Handle&, const OpGraph& graph, size_t, size_t most) {
  CUDAEP_RETURN_IF_ERROR(Check(graph));
  return std::vector<std::string>(most == 0 ? 0 : 1, std::string(kGraphChoice));
}

Result<std::unique_ptr<const GraphPlan>> MakePlan(Handle&, const OpGraph& graph, size_t, const std::string& choice) {
  CUDAEP_RETURN_IF_ERROR(Check(graph));
  if (!choice.empty() && choice != kGraphChoice) {
    return InvalidArgument('\'', choice, "' names no engine of the simulated cuDNN");
  }
  return std::unique_ptr<const GraphPlan>(std::make_unique<const SimGraphPlan>(graph));
}

Status Enqueue(Handle& handle, const GraphPlan& base_plan, std::span<void* const> tensors, void*) {
  const auto& sim = static_cast<const SimHandle&>(handle);
  const auto& plan = static_cast<const SimGraphPlan&>(base_plan);
  if (!sim.bound) return FailedPrecondition("graph: the handle is not bound to a stream");
  if (tensors.size() != plan.bound.size()) {
    return InvalidArgument("graph: ", tensors.size(), " addresses for ", plan.bound.size(), " tensors");
  }
  std::vector<void*> addresses(plan.graph.tensors.size()), writes;
  std::vector<const void*> reads;
  for (size_t i = 0; i < tensors.size(); ++i) {
    addresses[plan.bound[i]] = tensors[i];
    bool made = false;
    for (const GraphOp& op : plan.graph.ops) made = made || static_cast<size_t>(op.result) == plan.bound[i];
    made ? writes.push_back(tensors[i]) : reads.push_back(tensors[i]);
  }
  CUDAEP_RETURN_IF_ERROR(CheckAlignment({tensors.data(), tensors.size()}));
  return device::sim::EnqueueHostWork(
      sim.stream, "graph", [graph = plan.graph, addresses] { cudaep::sim::RunGraph(graph, addresses); }, reads, writes);
}

}  // namespace cudaep::dnn
