#include "ops/gemm/product_plans.h"

#include "core/strings.h"
#include "lib/problem_check.h"
#include "ops/fastest_plan.h"

namespace cudaep::ops {
namespace {

constexpr size_t kAnyWorkspace = size_t{1} << 40;
constexpr size_t kMostMeasured = 16;  // the library's order is good enough that later ones are not the best

using GemmPlanPtr = std::unique_ptr<const blas::GemmPlan>;

Result<GemmPlanPtr> MeasurePlans(blas::Handle& handle, const blas::GemmProblem& p, StreamContext& stream, size_t limit,
                                 int64_t most_ms) {
  CUDAEP_ASSIGN_OR_RETURN(const auto choices, blas::Candidates(handle, p, limit, kMostMeasured));
  const blas::GemmSizes sizes = blas::SizesOf(p);
  TimingTensors tensors(stream);
  blas::GemmPointers at;
  const auto prepare = [&](size_t workspace_bytes) -> Status {
    CUDAEP_ASSIGN_OR_RETURN(at.a, tensors.Random(p.types.a, sizes.a));
    CUDAEP_ASSIGN_OR_RETURN(at.b, tensors.Random(p.types.b, sizes.b));
    CUDAEP_ASSIGN_OR_RETURN(at.bias, tensors.Random(p.types.c, p.epilogue.bias ? p.n : 0));
    CUDAEP_ASSIGN_OR_RETURN(at.residual, tensors.Random(p.types.c, p.epilogue.residual() ? sizes.c : 0));
    CUDAEP_ASSIGN_OR_RETURN(at.c, tensors.Uninitialised(static_cast<size_t>(sizes.c) * SizeOf(p.types.c)));
    CUDAEP_ASSIGN_OR_RETURN(at.workspace, tensors.Uninitialised(workspace_bytes));
    return Status::Ok();
  };
  return FastestPlan<blas::GemmPlan>(
      stream, choices, blas::ProblemText(p), most_ms,
      [&](const std::string& choice) { return blas::MakePlan(handle, p, limit, choice); }, prepare,
      [&](const blas::GemmPlan& plan) { return blas::Enqueue(handle, plan, p.m, at, stream.stream()); });
}

}  // namespace

Result<PlanSlotPtr> FindProductPlan(StreamContext& stream, const ProductSearch& search,
                                    const blas::GemmProblem& problem, size_t workspace_limit_bytes) {
  CUDAEP_ASSIGN_OR_RETURN(blas::Handle* const handle, stream.blas());
  CUDAEP_ASSIGN_OR_RETURN(const std::string library, blas::Version());
  const std::string text = blas::ProblemText(problem);
  PlanStore::Request request{
      .ordinal = stream.ordinal(), .library = library, .problem = text, .file = search.plan_file};
  if (search.use_measured && !problem.deterministic) {
    const auto make = [&](const std::string& saved) -> Result<LibraryPlanPtr> {
      if (saved.empty() && !search.measure) return Status(StatusCode::kNotReady, "it was not measured yet");
      CUDAEP_ASSIGN_OR_RETURN(
          auto plan, saved.empty() ? MeasurePlans(*handle, problem, stream, workspace_limit_bytes, search.most_ms)
                                   : blas::MakePlan(*handle, problem, kAnyWorkspace, saved));
      return LibraryPlanPtr(std::move(plan));
    };
    CUDAEP_ASSIGN_OR_RETURN(PlanSlotPtr slot, FindMeasuredPlan(request, workspace_limit_bytes, make));
    if (slot != nullptr) return slot;
  }
  const std::string key = StrCat(text, " limit ", workspace_limit_bytes);
  request.problem = key;
  return PlanStore::Process().Get(request, [&](const std::string& saved) -> Result<LibraryPlanPtr> {
    CUDAEP_ASSIGN_OR_RETURN(auto plan, blas::MakePlan(*handle, problem, workspace_limit_bytes, saved));
    return LibraryPlanPtr(std::move(plan));
  });
}

}  // namespace cudaep::ops
