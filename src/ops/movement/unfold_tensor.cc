// UnfoldTensor of com.microsoft: all windows of a size along a dimension, as a dimension of their own behind the
// others.
#include "kernels/movement/strided_copy.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct UnfoldPlan : Plan {
  kernels::StridedCopy copy;
};

class UnfoldTensor final : public Operator {
 public:
  UnfoldTensor(int64_t dim, int64_t size, int64_t step) : dim_(dim), size_(size), step_(step) {}

  static Result<std::unique_ptr<UnfoldTensor>> Create(const OpInfo& info) {
    const int64_t size = info.IntOr("size", 0), step = info.IntOr("step", 1);
    if (size < 1 || step < 1) return InvalidArgument("size ", size, " and step ", step, " must be positive");
    return std::make_unique<UnfoldTensor>(info.IntOr("dim", -1), size, step);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const int dim, NormalizeAxis(dim_, inputs[0].rank, "dim"));
    if (inputs[0].dim[dim] < size_) {
      return InvalidArgument("windows of ", size_, " do not fit dimension ", dim, " of ", inputs[0].dims());
    }
    outputs[0].Assign(inputs[0].dims());
    outputs[0][dim] = (inputs[0].dim[dim] - size_) / step_ + 1;
    outputs[0].Append(size_);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const int dim, NormalizeAxis(dim_, context.inputs[0].rank, "dim"));
    Shape strides = ContiguousStrides(context.inputs[0].dims());
    strides.Append(strides[dim]);
    strides[dim] *= step_;
    auto plan = std::make_unique<UnfoldPlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->copy,
                            kernels::MakeStridedCopy(context.outputs[0], strides, 0, SizeOf(context.inputs[0].type)));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchStridedCopy(PlanAs<UnfoldPlan>(plan).copy, context.input(0), context.output(0),
                                      context.stream());
  }

 private:
  int64_t dim_, size_, step_;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "UnfoldTensor",
     .since = 1,
     .until = 1,
     .types = {{"T", kFixedSizeTypes}},
     .make = Make<UnfoldTensor>},
});

}  // namespace
}  // namespace cudaep::ops
