#include "ops/conv/conv_library.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "lib/problem_check.h"
#include "ops/conv/aligned_call.h"
#include "ops/fastest_plan.h"
#include "ops/library_limits.h"

namespace cudaep::ops {
namespace {

constexpr size_t kSmallWorkspaceBytes = size_t{32} << 20;  // of cudnn_conv_use_max_workspace = 0
constexpr size_t kMostWorkspaceBytes = size_t{1} << 30;
constexpr size_t kMostMeasured = 24;  // more bring nothing but time

// For few pixels, where a launch's way to its first product is what counts: a runtime engine that takes part in
// programmatic dependent launch, which heuristics never suggest. It is compiled, in some 40 ms, so a process does that
// for a while only; plan files keep what came of it.
constexpr char kShortChoice[] = "f2e4k24=55";
constexpr int64_t kMostShortPixels = int64_t{1} << 14;
constexpr std::chrono::milliseconds kCompilation{2500};

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
      [&](const dnn::ConvPlan& plan) { return dnn::Enqueue(handle, plan, at); });
}

bool IsShort(const dnn::ConvProblem& p) {
  return p.layout == dnn::Layout::kChannelsLast && p.direction == dnn::Direction::kForward && p.groups == 1 &&
         SizeOf(p.types.a) == 2 && p.epilogue.bias && dnn::SizesOf(p).y <= kMostShortPixels * p.out_channels;
}

// Nothing where the engine does not take the problem, or the process has compiled long enough.
Result<ConvPlanPtr> CompileShort(dnn::Handle& handle, const dnn::ConvProblem& p, size_t limit) {
  static std::atomic<int64_t> spent_us{0};
  if (!IsShort(p) || spent_us.load(std::memory_order_relaxed) > std::chrono::microseconds(kCompilation).count()) {
    return ConvPlanPtr();
  }
  const auto begin = std::chrono::steady_clock::now();
  auto plan = dnn::MakePlan(handle, p, limit, kShortChoice);
  const auto taken = std::chrono::steady_clock::now() - begin;
  spent_us.fetch_add(std::chrono::duration_cast<std::chrono::microseconds>(taken).count(), std::memory_order_relaxed);
  if (!plan.ok() && plan.status().code() == StatusCode::kDeviceLost) return std::move(plan).status();
  return plan.ok() ? std::move(plan).value() : ConvPlanPtr();
}

}  // namespace

size_t WorkspaceLimit(const ConvOptions& options) {
  return options.max_workspace ? kMostWorkspaceBytes : kSmallWorkspaceBytes;
}

Result<PlanSlotPtr> FindConvPlan(const ConvOptions& options, const dnn::ConvProblem& problem, StreamContext& stream) {
  CUDAEP_ASSIGN_OR_RETURN(dnn::Handle* const handle, stream.dnn());
  CUDAEP_ASSIGN_OR_RETURN(const std::string library, dnn::Version());
  const size_t limit = LimitClass(std::min(WorkspaceLimit(options), AvailableWorkspace(stream, problem.deterministic)));
  // What is fastest differs from one measurement to the next.
  const bool measured = options.search == ConvSearch::kExhaustive && !problem.deterministic;
  const bool frugal = options.search == ConvSearch::kDefault;
  const std::string text = dnn::ProblemText(problem);
  PlanStore::Request request{
      .ordinal = stream.ordinal(), .library = library, .problem = text, .file = options.product.search.plan_file};
  if (measured) {
    const auto make = [&](const std::string& saved) -> Result<LibraryPlanPtr> {
      CUDAEP_ASSIGN_OR_RETURN(auto plan, saved.empty() ? MeasurePlans(*handle, problem, stream, limit)
                                                       : dnn::MakePlan(*handle, problem, kMostWorkspaceBytes, saved));
      return LibraryPlanPtr(std::move(plan));
    };
    CUDAEP_ASSIGN_OR_RETURN(PlanSlotPtr slot, FindMeasuredPlan(request, limit, make));
    if (slot != nullptr) return slot;
  }
  const std::string key = StrCat(text, " limit ", limit, frugal ? " frugal" : "");
  request.problem = key;
  return PlanStore::Process().Get(request, [&](const std::string& saved) -> Result<LibraryPlanPtr> {
    if (saved.empty() && frugal) {
      auto plan = dnn::MakePlan(*handle, problem, 0);
      if (plan.ok()) return LibraryPlanPtr(std::move(plan).value());
    }
    if (saved.empty() && !frugal) {
      CUDAEP_ASSIGN_OR_RETURN(auto plan, CompileShort(*handle, problem, limit));
      if (plan != nullptr) return LibraryPlanPtr(std::move(plan));
    }
    CUDAEP_ASSIGN_OR_RETURN(auto plan, dnn::MakePlan(*handle, problem, limit, saved));
    return LibraryPlanPtr(std::move(plan));
  });
}

Status EnqueueConvLibrary(const dnn::ConvProblem& problem, const dnn::ConvPlan& plan, StreamContext& stream,
                          const dnn::ConvPointers& at) {
  return CallAligned(problem, stream, at, {}, [&](const dnn::ConvPointers& aligned) -> Status {
    CUDAEP_ASSIGN_OR_RETURN(dnn::Handle* const handle, stream.dnn());
    return dnn::Enqueue(*handle, plan, aligned);
  });
}

}  // namespace cudaep::ops
