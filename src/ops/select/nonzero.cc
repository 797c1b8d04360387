// NonZero: the coordinates of all elements that are not zero, one column each, in row-major order.
#include "kernels/select/select.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct NonZeroPlan : Plan {
  kernels::SelectPlan select;
  size_t counts = 0;
};

class NonZero final : public Operator {
 public:
  static Result<std::unique_ptr<NonZero>> Create(const OpInfo&) { return std::make_unique<NonZero>(); }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    if (inputs[0].rank > kernels::kMaxSelectRank) {
      return NotSupported("input of rank ", inputs[0].rank, "; up to ", kernels::kMaxSelectRank, " are offered");
    }
    outputs[0] = Shape{inputs[0].rank, kUnknownDim};
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<NonZeroPlan>();
    plan->select = kernels::PlanSelect(context.inputs[0].type, context.inputs[0].elems());
    plan->counts = plan->AddScratch(plan->select.count_bytes());
    plan->synchronizes = true;
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<NonZeroPlan>(base);
    auto* const counts = context.scratch<int64_t>(plan.counts);
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchCountNonZero(plan.select, context.input(0), counts, context.stream()));
    int64_t total = 0;
    CUDAEP_RETURN_IF_ERROR(context.ReadBack(counts + plan.select.chunks, sizeof(total), &total));
    const Dims dims = context.inputs[0].dims();
    CUDAEP_ASSIGN_OR_RETURN(void* const out, context.Output(0, Shape{context.inputs[0].rank, total}));
    if (out == nullptr) return Status::Ok();
    return kernels::LaunchWriteCoordinates(plan.select, dims, context.input(0), counts, total,
                                           static_cast<int64_t*>(out), context.stream());
  }
};

const RegisterRows kRows({
    {.op = "NonZero",
     .since = 9,
     .until = 13,
     .types = {{"T", kernels::kSelectTypes}},
     .open_shapes = true,
     .make = Make<NonZero>},
});

}  // namespace
}  // namespace cudaep::ops
