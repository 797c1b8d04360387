// Compress: the slices along an axis (or the elements) whose condition holds. A condition shorter than the axis leaves
// out the rest; what is beyond the axis is not looked at.
#include <algorithm>

#include "kernels/movement/gather.h"
#include "kernels/select/select.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct CompressPlan : Plan {
  kernels::SelectPlan select;
  kernels::GatherShape gather;  // without its count
  size_t counts = 0, positions = 0;
};

class Compress final : public Operator {
 public:
  explicit Compress(std::optional<int64_t> axis) : axis_(axis) {}

  static Result<std::unique_ptr<Compress>> Create(const OpInfo& info) {
    return std::make_unique<Compress>(info.Int("axis"));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    if (inputs[1].rank != 1) return InvalidArgument("condition has shape ", inputs[1].dims(), ", expected a vector");
    CUDAEP_ASSIGN_OR_RETURN(outputs[0], OutputShape(inputs[0], kUnknownDim));
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorView& x = context.inputs[0];
    auto plan = std::make_unique<CompressPlan>();
    const auto size = static_cast<int64_t>(SizeOf(x.type));
    if (axis_) {
      CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(*axis_, x.rank));
      const auto at = static_cast<size_t>(axis);
      plan->gather = {.outer = ElementCount(x.dims().first(at)),
                      .axis = x.dim[axis],
                      .row_bytes = ElementCount(x.dims().subspan(at + 1)) * size};
    } else {
      plan->gather = {.outer = 1, .axis = x.elems(), .row_bytes = size};
    }
    plan->select = kernels::PlanSelect(DataType::kBool, std::min(context.inputs[1].elems(), plan->gather.axis));
    plan->counts = plan->AddScratch(plan->select.count_bytes());
    plan->positions = plan->AddScratch(static_cast<size_t>(plan->select.elems) * sizeof(int64_t));
    plan->synchronizes = true;
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<CompressPlan>(base);
    auto* const counts = context.scratch<int64_t>(plan.counts);
    auto* const positions = context.scratch<int64_t>(plan.positions);
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchCountNonZero(plan.select, context.input(1), counts, context.stream()));
    int64_t total = 0;
    CUDAEP_RETURN_IF_ERROR(context.ReadBack(counts + plan.select.chunks, sizeof(total), &total));
    CUDAEP_ASSIGN_OR_RETURN(const Shape shape, OutputShape(context.inputs[0], total));
    CUDAEP_ASSIGN_OR_RETURN(void* const out, context.Output(0, shape));
    if (out == nullptr || shape.elems() == 0) return Status::Ok();
    CUDAEP_RETURN_IF_ERROR(
        kernels::LaunchWritePositions(plan.select, context.input(1), counts, positions, context.stream()));
    kernels::GatherShape gather = plan.gather;
    gather.count = total;
    return kernels::LaunchGather(gather, context.input(0), {positions, true}, out, context.stream());
  }

 private:
  Result<Shape> OutputShape(const TensorView& x, int64_t selected) const {
    if (!axis_) return Shape{selected};
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(*axis_, x.rank));
    Shape shape(x.dims());
    shape[axis] = selected;
    return shape;
  }

  std::optional<int64_t> axis_;
};

KernelRow Row(int since, int until, DataTypeSet types) {
  return {.op = "Compress",
          .since = since,
          .until = until,
          .types = {{"T", types}, {"T1", DataType::kBool}},
          .open_shapes = true,
          .make = Make<Compress>};
}

const RegisterRows kRows({
    Row(9, 11, kFixedSizeTypes - DataTypeSet(DataType::kBFloat16)),
    Row(28, 28, kFixedSizeTypes),
});

}  // namespace
}  // namespace cudaep::ops
