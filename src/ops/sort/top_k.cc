// TopK. The number of elements is an attribute at first and a host input from version 10 on.
#include "kernels/sort/top_k.h"

#include "core/checked_math.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct TopKPlan : Plan {
  kernels::TopK problem;
};

class TopK final : public Operator {
 public:
  explicit TopK(const OpInfo& info)
      : axis_(info.IntOr("axis", -1)),
        k_(info.Int("k")),
        largest_(info.BoolOr("largest", true)),
        sorted_(info.BoolOr("sorted", true)) {}

  static Result<std::unique_ptr<TopK>> Create(const OpInfo& info) {
    if (info.since_version() < 10 && !info.Int("k")) return InvalidArgument("attribute k is missing");
    return std::make_unique<TopK>(info);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::TopK problem, ProblemOf(inputs));
    Shape shape(inputs[0].dims());
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, shape.rank()));
    shape[axis] = problem.k;
    for (Shape& output : outputs) output = shape;
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<TopKPlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->problem, ProblemOf(context.inputs));
    plan->workspace_bytes = plan->problem.scratch_bytes();
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchTopK(PlanAs<TopKPlan>(plan).problem, context.input(0), context.output(0),
                               context.output<int64_t>(1), context.workspace, context.stream());
  }

 private:
  Result<kernels::TopK> ProblemOf(TensorViews inputs) const {
    const TensorView& x = inputs[0];
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, x.rank));
    int64_t k = k_.value_or(0);
    if (!k_) {
      if (inputs[1].elems() != 1) return InvalidArgument("K ", inputs[1].dims(), " must have one element");
      k = inputs[1].host<int64_t>()[0];
    }
    if (k < 0 || k > x.dim[axis]) return InvalidArgument("K ", k, " is outside [0, ", x.dim[axis], "]");
    if (!FitsInt32(x.dim[axis])) return NotSupported("an axis of ", x.dim[axis], " elements");
    const auto at = static_cast<size_t>(axis);
    return kernels::TopK{.type = x.type,
                         .outer = ElementCount(x.dims().first(at)),
                         .axis = x.dim[axis],
                         .inner = ElementCount(x.dims().subspan(at + 1)),
                         .k = k,
                         .largest = largest_,
                         .sorted = sorted_};
  }

  int64_t axis_;
  std::optional<int64_t> k_;  // before version 10
  bool largest_, sorted_;
};

const RegisterRows kRows({
    {.op = "TopK", .since = 1, .until = 1, .types = {{"T", kFloatTypes}, {"I", DataType::kInt64}}, .make = Make<TopK>},
    {.op = "TopK",
     .since = 10,
     .until = 24,
     .types = {{"T", kernels::kTopKTypes}, {"I", DataType::kInt64}},
     .host_inputs = {1},
     .make = Make<TopK>},
});

}  // namespace
}  // namespace cudaep::ops
