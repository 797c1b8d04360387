// OneHot: the depth is read on the host, the two values and the indices stay on the device.
#include "kernels/movement/one_hot.h"

#include <cmath>

#include "core/data_type_traits.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct OneHotPlan : Plan {
  kernels::OneHotShape shape;
};

Result<int64_t> DepthOf(const TensorView& input) {
  if (input.elems() != 1) return InvalidArgument("depth has shape ", input.dims(), ", expected one element");
  const double depth = VisitType<kNumericTypes>(
      input.type, -1.0, [&]<class T>() { return static_cast<double>(Load(input.host<T>()[0])); });
  if (!(depth >= 1 && depth < 0x1p62)) return InvalidArgument("depth ", depth, " is not positive");
  return static_cast<int64_t>(depth);
}

class OneHot final : public Operator {
 public:
  explicit OneHot(int64_t axis) : axis_(axis) {}

  static Result<std::unique_ptr<OneHot>> Create(const OpInfo& info) {
    return std::make_unique<OneHot>(info.IntOr("axis", -1));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims indices = inputs[0].dims();
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, inputs[0].rank + 1));
    CUDAEP_ASSIGN_OR_RETURN(const int64_t depth, DepthOf(inputs[1]));
    if (inputs[2].rank != 1 || inputs[2].dim[0] != 2) {
      return InvalidArgument("values have shape ", inputs[2].dims(), ", expected [2]");
    }
    outputs[0].Resize(inputs[0].rank + 1);
    int64_t* dim = std::copy_n(indices.begin(), axis, outputs[0].data());
    *dim++ = depth;
    std::copy(indices.begin() + axis, indices.end(), dim);
    CUDAEP_RETURN_IF_ERROR(CheckedElementCount(outputs[0]).status());
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const Shape& out = context.outputs[0];
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, out.rank()));
    const auto at = static_cast<size_t>(axis);
    auto plan = std::make_unique<OneHotPlan>();
    plan->shape = {.outer = ElementCount(out.dims().first(at)),
                   .depth = out[axis],
                   .inner = ElementCount(out.dims().subspan(at + 1)),
                   .elem_bytes = static_cast<int>(SizeOf(context.inputs[2].type))};
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchOneHot(PlanAs<OneHotPlan>(plan).shape, context.input(0), context.inputs[0].type,
                                 context.input(2), context.output(0), context.stream());
  }

 private:
  int64_t axis_;
};

constexpr DataTypeSet kIndices = kNumericTypes - DataTypeSet(DataType::kBFloat16);

KernelRow Row(int since, int until, DataTypeSet values) {
  return {.op = "OneHot",
          .since = since,
          .until = until,
          .types = {{"T1", kIndices}, {"T2", kIndices}, {"T3", values}},
          .host_inputs = {1},
          .make = Make<OneHot>};
}

const RegisterRows kRows({
    Row(9, 11, kFixedSizeTypes - DataTypeSet(DataType::kBFloat16)),
    Row(28, 28, kFixedSizeTypes),
});

}  // namespace
}  // namespace cudaep::ops
