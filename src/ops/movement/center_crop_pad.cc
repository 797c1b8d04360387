// CenterCropPad: each axis is cut or filled up with zeros to a given size, the odd element at its end.
#include "kernels/movement/pad.h"
#include "ops/registry.h"
#include "ops/shape/host_ints.h"

namespace cudaep::ops {
namespace {

struct CenterCropPadPlan : Plan {
  kernels::PadCopy copy;
};

class CenterCropPad final : public Operator {
 public:
  explicit CenterCropPad(std::optional<std::vector<int64_t>> axes) : axes_(std::move(axes)) {}

  static Result<std::unique_ptr<CenterCropPad>> Create(const OpInfo& info) {
    return std::make_unique<CenterCropPad>(info.Ints("axes"));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const int rank = inputs[0].rank;
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, HostInts(inputs[1], "shape"));
    const size_t count = axes_ ? axes_->size() : static_cast<size_t>(rank);
    if (sizes.size() != count) {
      return InvalidArgument("shape ", Dims(sizes), " must have one number for each of ", count, " axes");
    }
    outputs[0].Assign(inputs[0].dims());
    std::vector<bool> seen(static_cast<size_t>(rank), false);
    for (size_t i = 0; i < count; ++i) {
      CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axes_ ? (*axes_)[i] : static_cast<int64_t>(i), rank));
      if (seen[static_cast<size_t>(axis)]) return InvalidArgument("axis ", axis, " is named twice");
      seen[static_cast<size_t>(axis)] = true;
      outputs[0][axis] = sizes[i];
    }
    CUDAEP_RETURN_IF_ERROR(CheckedElementCount(outputs[0]).status());
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorView& input = context.inputs[0];
    Shape begins(input.rank, 0), ends(input.rank, 0);
    for (int d = 0; d < input.rank; ++d) {
      const int64_t change = context.outputs[0][d] - input.dim[d];
      begins[d] = change / 2;  // towards 0 both ways
      ends[d] = change - begins[d];
    }
    auto plan = std::make_unique<CenterCropPadPlan>();
    CUDAEP_ASSIGN_OR_RETURN(
        plan->copy, kernels::MakePadCopy(input.dims(), begins, ends, kernels::PadMode::kConstant, SizeOf(input.type)));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchPad(PlanAs<CenterCropPadPlan>(plan).copy, context.input(0), {}, context.output(0),
                              context.stream());
  }

 private:
  std::optional<std::vector<int64_t>> axes_;
};

const RegisterRows kRows({
    {.op = "CenterCropPad",
     .since = 18,
     .until = 18,
     .types = {{"T", kFixedSizeTypes}, {"Tind", kIndexTypes}},
     .host_inputs = {1},
     .make = Make<CenterCropPad>},
});

}  // namespace
}  // namespace cudaep::ops
