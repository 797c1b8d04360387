// MaxUnpool. Positions are counted in the shape that the attributes give; an output_shape of its own may be larger, and
// gets zeros behind.
#include "kernels/pool/unpool.h"
#include "ops/conv/window.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct UnpoolPlan : Plan {
  kernels::UnpoolShape shape;
};

class MaxUnpool : public Operator {
 public:
  explicit MaxUnpool(WindowAttributes window) : window_(std::move(window)) {}

  static Result<std::unique_ptr<MaxUnpool>> Create(const OpInfo& info) {
    CUDAEP_ASSIGN_OR_RETURN(WindowAttributes window, ParseWindow(info));
    if (window.kernel.empty()) return InvalidArgument("attribute kernel_shape is missing");
    return std::make_unique<MaxUnpool>(std::move(window));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(outputs[0], Counted(inputs));
    if (inputs.size() < 3 || !inputs[2].present()) return Status::Ok();
    const Dims wanted(inputs[2].host<int64_t>());
    if (inputs[2].rank != 1 || wanted.size() != outputs[0].dims().size()) {
      return InvalidArgument("output_shape has ", wanted.size(), " numbers, expected one for each dimension of ",
                             inputs[0].dims());
    }
    for (size_t d = 0; d < wanted.size(); ++d) {
      const int64_t least = outputs[0][static_cast<int>(d)];
      if (wanted[d] < least || (d < 2 && wanted[d] != least)) {
        return InvalidArgument("output_shape ", wanted, " does not hold the unpooled ", outputs[0].dims());
      }
    }
    CUDAEP_RETURN_IF_ERROR(CheckedElementCount(wanted).status());
    outputs[0].Assign(wanted);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<UnpoolPlan>();
    CUDAEP_ASSIGN_OR_RETURN(const Shape counted, Counted(context.inputs));
    plan->shape.elems = context.inputs[0].elems();
    const int first = kernels::kMaxUnpoolRank - counted.rank();
    for (int d = 0; d < counted.rank(); ++d) {
      plan->shape.counted[first + d] = counted[d];
      plan->shape.out[first + d] = context.outputs[0][d];
    }
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchUnpool(PlanAs<UnpoolPlan>(plan).shape, SizeOf(context.inputs[0].type), context.input(0),
                                 context.input<int64_t>(1), context.output(0), context.stream());
  }

 private:
  Result<Shape> Counted(TensorViews inputs) const {
    const Dims x = inputs[0].dims();
    if (x.size() < 3) return InvalidArgument("input X ", x, " needs batch, channels and a spatial dimension");
    if (!SameDims(x, inputs[1].dims()) || x.size() != inputs[1].dims().size()) {
      return InvalidArgument("indices have shape ", inputs[1].dims(), ", X has ", x);
    }
    CUDAEP_ASSIGN_OR_RETURN(const Window window, MakeWindow(window_, x.subspan(2), window_.kernel));
    Shape counted(x);
    for (int d = 0; d < window.rank; ++d) {
      const auto i = static_cast<size_t>(d);
      const int64_t padding = window_.pads.empty() ? 0 : window_.pads[i] + window_.pads[i + x.size() - 2];
      if (x[i + 2] == 0) continue;
      counted[d + 2] = (x[i + 2] - 1) * window.stride[i] + window.kernel[i] - padding;
      if (counted[d + 2] < 0) return InvalidArgument("pads ", Dims(window_.pads), " leave nothing of ", x);
    }
    CUDAEP_RETURN_IF_ERROR(CheckedElementCount(counted).status());
    return counted;
  }

  WindowAttributes window_;
};

const RegisterRows kRows({
    {.op = "MaxUnpool",
     .since = 9,
     .until = 22,
     .types = {{"T1", kFloatTypes}, {"T2", DataType::kInt64}},
     .host_inputs = {2},
     .make = Make<MaxUnpool>},
});

}  // namespace
}  // namespace cudaep::ops
