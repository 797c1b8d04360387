// Hardmax: 1 at the first largest element along an axis, 0 elsewhere. Before opset 13 the input is a matrix flattened
// at the axis. Two launches: a search that only reads, and one that only writes.
#include "kernels/softmax/hardmax.h"

#include "ops/reduce/reduction.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

using kernels::ReduceOp;

struct HardmaxPlan : Plan {
  int64_t outer = 0, elems = 0, inner = 1;
  std::unique_ptr<ReductionPlan> search;
  size_t positions = 0, partials = 0;
};

class Hardmax : public Operator {
 public:
  Hardmax(const OpInfo& info, kernels::ReduceKernel search)
      : type_(info.input_type(0)),
        search_(search),
        flatten_(info.since_version() < 13),
        axis_(info.IntOr("axis", flatten_ ? 1 : -1)) {}

  static Result<std::unique_ptr<Hardmax>> Create(const OpInfo& info) {
    const kernels::ReduceKernel search = kernels::FindReduceKernel(ReduceOp::kArgMax, info.input_type(0));
    if (search == nullptr) return NotSupported("element type ", DataTypeName(info.input_type(0)));
    return std::make_unique<Hardmax>(info, search);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(Axis(inputs[0].rank).status());
    outputs[0].Assign(inputs[0].dims());
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<HardmaxPlan>();
    const Dims dims = context.inputs[0].dims();
    CUDAEP_ASSIGN_OR_RETURN(const int axis, Axis(context.inputs[0].rank));
    if (ElementCount(dims) == 0) return PlanPtr(std::move(plan));
    const auto at = static_cast<size_t>(axis);
    plan->outer = ElementCount(dims.subspan(0, at));
    plan->elems = flatten_ || dims.empty() ? ElementCount(dims.subspan(at)) : dims[at];
    plan->inner = flatten_ || dims.empty() ? 1 : ElementCount(dims.subspan(at + 1));
    const int64_t seen[] = {plan->outer, plan->elems, plan->inner};
    const bool reduced[] = {false, true, false};
    CUDAEP_ASSIGN_OR_RETURN(plan->search, PlanReductionOf(ReduceOp::kArgMax, seen, reduced, type_, context));
    plan->positions = plan->AddScratch(static_cast<size_t>(plan->outer * plan->inner) * sizeof(int64_t));
    plan->partials = plan->AddScratch(plan->search->workspace_bytes);
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<HardmaxPlan>(base);
    if (plan.search == nullptr) return Status::Ok();
    auto* const positions = context.scratch<int64_t>(plan.positions);
    CUDAEP_RETURN_IF_ERROR(EnqueueReductionOf(
        search_, *plan.search, context,
        {.op = ReduceOp::kArgMax, .x = context.input(0), .y = positions, .workspace = context.scratch(plan.partials)}));
    return kernels::LaunchHardmax({.type = type_,
                                   .positions = positions,
                                   .y = context.output(0),
                                   .outer = plan.outer,
                                   .elems = plan.elems,
                                   .inner = plan.inner},
                                  context.stream());
  }

 private:
  // Flattening may also happen after the last dimension; a scalar has one row of one element.
  Result<int> Axis(int rank) const {
    if (flatten_ && axis_ == rank) return rank;
    if (rank == 0 && (axis_ == -1 || axis_ == 0)) return 0;
    return NormalizeAxis(axis_, rank);
  }

  DataType type_;
  kernels::ReduceKernel search_;
  bool flatten_;
  int64_t axis_;
};

const RegisterRows kRows({
    {.op = "Hardmax",
     .since = 1,
     .until = 13,
     .types = {{"T", kFloatTypes}},
     .in_place = {{0, 0}},
     .make = Make<Hardmax>},
});

}  // namespace
}  // namespace cudaep::ops
