// dnn.h on the simulated device: conv_host.h in the queue of a stream.
#include "device/sim/sim.h"
#include "lib/dnn.h"
#include "lib/problem_check.h"
#include "lib/sim/conv_host.h"
#include "lib/sim/host_gemm.h"

namespace cudaep::dnn {
namespace {

class SimHandle final : public Handle {
 public:
  device::Stream stream = nullptr;
  bool bound = false;
};

class SimPlan final : public ConvPlan {
 public:
  SimPlan(const ConvProblem& problem, const sim::ConvTiling& tiling) : problem(problem), tiling(tiling) {
    workspace_bytes_ = tiling.workspace_bytes;
  }
  const ConvProblem problem;
  const sim::ConvTiling tiling;
};

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

Result<std::unique_ptr<const ConvPlan>> MakePlan(Handle&, const ConvProblem& problem, Choice,
                                                 size_t workspace_limit_bytes) {
  CUDAEP_RETURN_IF_ERROR(CheckProblem(problem));
  CUDAEP_ASSIGN_OR_RETURN(const sim::ConvTiling tiling, sim::PlanConvolution(problem, workspace_limit_bytes));
  return std::unique_ptr<const ConvPlan>(std::make_unique<const SimPlan>(problem, tiling));
}

Status Enqueue(Handle& handle, const ConvPlan& base_plan, const ConvPointers& pointers) {
  const auto& sim = static_cast<const SimHandle&>(handle);
  const auto& plan = static_cast<const SimPlan&>(base_plan);
  if (!sim.bound) return FailedPrecondition(ProblemText(plan.problem), ": the handle is not bound to a stream");
  if (plan.workspace_bytes() != 0 && pointers.workspace == nullptr) {
    return InvalidArgument(ProblemText(plan.problem), ": the plan needs a workspace, but none was given");
  }
  const void* reads[] = {pointers.x, pointers.w, pointers.bias};
  void* writes[] = {pointers.y, pointers.workspace};
  return device::sim::EnqueueHostWork(
      sim.stream, ProblemText(plan.problem),
      [problem = plan.problem, tiling = plan.tiling, pointers] {
        cudaep::sim::RunConvolution(problem, tiling, pointers);
      },
      std::span<const void* const>(reads, plan.problem.bias ? 3 : 2),
      std::span<void* const>(writes, plan.workspace_bytes() != 0 ? 2 : 1));
}

}  // namespace cudaep::dnn
