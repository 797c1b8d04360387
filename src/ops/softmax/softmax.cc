// Softmax and LogSoftmax. Before opset 13 the input is a matrix flattened at the axis; from 13 on the axis stands
// alone.
#include "kernels/softmax/softmax.h"

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum class Variant : uint8_t { kSoftmax, kLogSoftmax };

struct SoftmaxPlan : Plan {
  int64_t outer = 1, elems = 1, inner = 1;
  kernels::SoftmaxRowPlan rows;  // of the kernel for contiguous rows
};

class Softmax : public Operator {
 public:
  Softmax(const OpInfo& info, Variant variant, bool flatten)
      : type_(info.input_type(0)),
        log_(variant == Variant::kLogSoftmax),
        flatten_(flatten),
        axis_(info.IntOr("axis", flatten ? 1 : -1)) {}

  static Result<std::unique_ptr<Softmax>> Create(const OpInfo& info, const KernelRow& row) {
    return std::make_unique<Softmax>(info, row.VariantAs<Variant>(), info.since_version() < 13);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(Axis(inputs[0].rank).status());
    outputs[0].Assign(inputs[0].dims());
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const Dims dims = context.inputs[0].dims();
    CUDAEP_ASSIGN_OR_RETURN(const int axis, Axis(context.inputs[0].rank));
    auto plan = std::make_unique<SoftmaxPlan>();
    const auto at = static_cast<size_t>(axis);
    plan->outer = ElementCount(dims.subspan(0, at));
    if (flatten_ || dims.empty()) {
      plan->elems = ElementCount(dims.subspan(at));
    } else {
      plan->elems = dims[at];
      plan->inner = ElementCount(dims.subspan(at + 1));
    }
    plan->rows = kernels::PlanSoftmax(type_, plan->outer, plan->elems, context.device);
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<SoftmaxPlan>(base);
    if (plan.inner != 1) {
      return kernels::LaunchSoftmaxStrided({.type = type_,
                                            .x = context.input(0),
                                            .y = context.output(0),
                                            .outer = plan.outer,
                                            .elems = plan.elems,
                                            .inner = plan.inner,
                                            .log = log_},
                                           context.stream());
    }
    return kernels::LaunchSoftmaxRows({.type = type_,
                                       .x = context.input(0),
                                       .y = context.output(0),
                                       .rows = plan.outer,
                                       .elems = plan.elems,
                                       .log = log_,
                                       .plan = plan.rows},
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
  bool log_, flatten_;
  int64_t axis_;
};

KernelRow Row(const char* op, Variant variant, int since, int until) {
  return {.op = op,
          .since = since,
          .until = until,
          .types = {{"T", kernels::kSoftmaxTypes}},
          .in_place = {{0, 0}},
          .variant = static_cast<int>(variant),
          .make = Make<Softmax>};
}

const RegisterRows kRows({
    Row("Softmax", Variant::kSoftmax, 1, 13),
    Row("LogSoftmax", Variant::kLogSoftmax, 1, 13),
});

}  // namespace
}  // namespace cudaep::ops
