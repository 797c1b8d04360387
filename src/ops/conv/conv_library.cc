#include "ops/conv/conv_library.h"

#include <algorithm>

#include "core/strings.h"
#include "device/device_info.h"
#include "kernels/common/pause.h"
#include "lib/conv_graph.h"
#include "lib/problem_check.h"
#include "ops/conv/aligned_call.h"
#include "ops/conv/conv_plan.h"
#include "ops/conv/runtime_engine.h"
#include "ops/fastest_plan.h"
#include "ops/library_limits.h"

namespace cudaep::ops {
namespace {

constexpr size_t kSmallWorkspaceBytes = size_t{32} << 20;  // of cudnn_conv_use_max_workspace = 0
constexpr size_t kMostWorkspaceBytes = size_t{1} << 30;
constexpr size_t kMostMeasured = 24;  // more bring nothing but time

// Multiplications of a convolution that the runtime engine is likely to be ahead in (ResNet-50 in fp16 on an H200, us a
// Run with it and with what heuristics suggest: batch 1 267 and 320; with it for all of up to 16,384 pixels, batch 32
// 1,054 and 1,004 without the pool in the first kernel, batch 128 3,380 and 3,217).
constexpr double kMostShortMultiplications = 1 << 28;

using ConvPlanPtr = std::unique_ptr<const dnn::ConvPlan>;

// The fastest of the library's candidates. kOutOfMemory where there is no room to measure in, kNotSupported where none
// of them runs.
Result<ConvPlanPtr> MeasurePlans(dnn::Handle& handle, const dnn::ConvProblem& p, StreamContext& stream, size_t limit) {
  CUDAEP_ASSIGN_OR_RETURN(const auto choices, dnn::Candidates(handle, p, limit, kMostMeasured));
  const dnn::ConvSizes sizes = dnn::SizesOf(p);
  TimingTensors tensors(stream);
  dnn::ConvPointers at;
  const auto prepare = [&](size_t workspace_bytes) -> Status {
    CUDAEP_ASSIGN_OR_RETURN(at.x, tensors.Random(p.types.a, sizes.x));
    CUDAEP_ASSIGN_OR_RETURN(at.w, tensors.Random(p.types.b, sizes.w));
    CUDAEP_ASSIGN_OR_RETURN(at.bias, tensors.Random(p.types.c, p.out_channels));
    CUDAEP_ASSIGN_OR_RETURN(at.residual, tensors.Random(p.types.c, p.epilogue.residual() ? sizes.y : 0));
    CUDAEP_ASSIGN_OR_RETURN(at.y, tensors.Uninitialised(static_cast<size_t>(sizes.y) * SizeOf(p.types.c)));
    CUDAEP_ASSIGN_OR_RETURN(at.workspace, tensors.Uninitialised(workspace_bytes));
    return Status::Ok();
  };
  return FastestPlan<dnn::ConvPlan>(
      stream, choices, dnn::ProblemText(p), 0,
      [&](const std::string& choice) { return dnn::MakePlan(handle, p, limit, choice); }, prepare,
      [&](const dnn::ConvPlan& plan) { return EnqueueConvPlan(stream, plan, at); });
}

bool IsShort(const dnn::ConvProblem& p) {
  return TakesRuntimeEngine(p) && p.epilogue.bias && ConvFlops(p) <= 2.0 * kMostShortMultiplications;
}

}  // namespace

size_t WorkspaceLimit(const ConvOptions& options) {
  return options.max_workspace ? kMostWorkspaceBytes : kSmallWorkspaceBytes;
}

Result<PlanSlotPtr> FindConvPlan(const ConvOptions& options, const dnn::ConvProblem& wanted, StreamContext& stream) {
  const dnn::ConvProblem problem = WithoutParts(wanted);
  CUDAEP_ASSIGN_OR_RETURN(dnn::Handle* const handle, stream.dnn());
  CUDAEP_ASSIGN_OR_RETURN(const std::string library, dnn::Version());
  const size_t limit = LimitClass(std::min(WorkspaceLimit(options), AvailableWorkspace(stream, problem.deterministic)));
  // What is fastest differs from one measurement to the next.
  const bool measured = options.search == ConvSearch::kExhaustive && !problem.deterministic;
  const bool frugal = options.search == ConvSearch::kDefault;
  const bool compiles = options.product.compiles;
  // Sessions that compile nothing have plans of their own, in whose place no other session's engine comes.
  const std::string text = StrCat(dnn::ProblemText(wanted), compiles ? "" : " uncompiled");
  PlanStore::Request request{
      .ordinal = stream.ordinal(), .library = library, .problem = text, .file = options.product.search.plan_file};
  // `whole`: plans that leave nothing are wanted, too.
  const auto compile = [&](const PlanSlotPtr& slot, bool whole) {
    std::vector<std::string> choices;
    if (IsShort(problem)) choices.emplace_back(dnn::kRuntimeEngine);
    if (wanted.has_parts() && slot->plan().remaining().empty()) choices.push_back(slot->plan().choice());
    for (const dnn::ConvForm form : dnn::FormsOf(wanted)) {
      const bool leaves_nothing = dnn::RemainingOf(wanted, form).empty();
      if ((whole || wanted.has_parts()) && leaves_nothing) choices.push_back(dnn::FormChoice(form));
    }
    CompileInBackground(wanted, stream, slot, std::move(choices));
  };
  if (measured) {
    const auto make = [&](const std::string& saved) -> Result<LibraryPlanPtr> {
      CUDAEP_ASSIGN_OR_RETURN(auto plan, saved.empty() ? MeasurePlans(*handle, problem, stream, limit)
                                                       : dnn::MakePlan(*handle, problem, kMostWorkspaceBytes, saved));
      return LibraryPlanPtr(std::move(plan));
    };
    CUDAEP_ASSIGN_OR_RETURN(PlanSlotPtr slot, FindMeasuredPlan(request, limit, make));
    if (slot != nullptr) {
      // One by one with a cold cache, the runtime engine's early start is not seen.
      if (compiles) compile(slot, false);
      return slot;
    }
  }
  // A Run does not wait for a compilation: what needs one begins without its activation.
  const auto uncompiled = dnn::UncompiledForm(problem);
  const auto make_first = [&](size_t most) -> Result<ConvPlanPtr> {
    if (!uncompiled) return dnn::MakePlan(*handle, problem, most);
    auto plan = dnn::MakePlan(*handle, problem, most, dnn::FormChoice(*uncompiled));
    if (plan.ok() || *uncompiled == dnn::ConvForm::kSumOnly) return plan;
    return dnn::MakePlan(*handle, problem, most, dnn::FormChoice(dnn::ConvForm::kSumOnly));
  };
  const std::string key = StrCat(text, " limit ", limit, frugal ? " frugal" : "");
  request.problem = key;
  const auto make = [&](const std::string& saved) -> Result<LibraryPlanPtr> {
    if (saved.empty() && frugal) {
      auto plan = make_first(0);
      if (plan.ok()) return LibraryPlanPtr(std::move(plan).value());
    }
    CUDAEP_ASSIGN_OR_RETURN(auto plan,
                            saved.empty() ? make_first(limit) : dnn::MakePlan(*handle, problem, limit, saved));
    return LibraryPlanPtr(std::move(plan));
  };
  CUDAEP_ASSIGN_OR_RETURN(PlanSlotPtr slot, PlanStore::Process().Get(request, make));
  if (!compiles || frugal) return slot;
  // Others leave as much as the plan that is there.
  compile(slot, uncompiled && !slot->plan().remaining().empty());
  return slot;
}

void TakeLibrary(ConvRunPlan* plan, PlanSlotPtr library) {
  plan->settled = library->progress() != PlanSlot::Progress::kMaking;
  plan->library = std::move(library);
}

Status EnqueueConvLibrary(const dnn::ConvProblem& problem, const dnn::ConvPlan& plan, StreamContext& stream,
                          const dnn::ConvPointers& at) {
  return CallAligned(problem, stream, at, {}, [&](const dnn::ConvPointers& aligned) -> Status {
    return EnqueueConvPlan(stream, plan, aligned);
  });
}

Status EnqueueConvPlan(StreamContext& stream, const dnn::ConvPlan& plan, const dnn::ConvPointers& at) {
  CUDAEP_ASSIGN_OR_RETURN(dnn::Handle* const handle, stream.dnn());
  const bool may_begin_early = stream.device_info().simulated || stream.device_info().major >= 9;
  if (may_begin_early && plan.begins_early() && at.residual != nullptr) {
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchPause(stream.stream()));
  }
  return dnn::Enqueue(*handle, plan, at);
}

}  // namespace cudaep::ops
