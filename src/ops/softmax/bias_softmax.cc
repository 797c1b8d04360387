// BiasSoftmax: softmax(data + bias) over everything from the axis on. The bias has fewer rows than the data: each is
// used for a group of neighbouring rows (inner broadcast), or all of them in turn (outer broadcast).
#include "kernels/softmax/softmax.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct BiasSoftmaxPlan : Plan {
  int64_t rows = 1, elems = 1;
  kernels::BiasRows bias_rows;
  kernels::SoftmaxRowPlan row_plan;
};

class BiasSoftmax : public Operator {
 public:
  explicit BiasSoftmax(const OpInfo& info)
      : type_(info.input_type(0)), axis_(info.IntOr("axis", 1)), inner_(info.BoolOr("is_inner_broadcast", false)) {}

  static Result<std::unique_ptr<BiasSoftmax>> Create(const OpInfo& info) {
    if (!info.Int("is_inner_broadcast")) return InvalidArgument("attribute is_inner_broadcast is missing");
    return std::make_unique<BiasSoftmax>(info);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims data = inputs[0].dims(), bias = inputs[1].dims();
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, inputs[0].rank));
    const Dims row = data.subspan(static_cast<size_t>(axis));
    const int64_t rows = ElementCount(data.subspan(0, static_cast<size_t>(axis))), elems = ElementCount(row);
    const bool fits = bias.size() >= row.size() && SameDims(bias.subspan(bias.size() - row.size()), row);
    const int64_t bias_rows = fits && elems != 0 ? ElementCount(bias) / elems : 0;
    if (!fits || (rows != 0 && elems != 0 && (bias_rows == 0 || rows % bias_rows != 0))) {
      return InvalidArgument("bias ", bias, " does not repeat over data ", data, " from axis ", axis, " on");
    }
    outputs[0].Assign(data);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const Dims data = context.inputs[0].dims();
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, context.inputs[0].rank));
    auto plan = std::make_unique<BiasSoftmaxPlan>();
    plan->rows = ElementCount(data.subspan(0, static_cast<size_t>(axis)));
    plan->elems = ElementCount(data.subspan(static_cast<size_t>(axis)));
    if (plan->rows != 0 && plan->elems != 0) {
      const int64_t count = context.inputs[1].elems() / plan->elems;
      plan->bias_rows = {.repeat = inner_ ? plan->rows / count : 1, .count = count};
    }
    plan->row_plan = kernels::PlanSoftmax(type_, plan->rows, plan->elems, context.device);
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<BiasSoftmaxPlan>(base);
    return kernels::LaunchSoftmaxRows({.type = type_,
                                       .x = context.input(0),
                                       .bias = context.input(1),
                                       .y = context.output(0),
                                       .rows = plan.rows,
                                       .elems = plan.elems,
                                       .bias_rows = plan.bias_rows,
                                       .plan = plan.row_plan},
                                      context.stream());
  }

 private:
  DataType type_;
  int64_t axis_;
  bool inner_;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "BiasSoftmax",
     .types = {{"T", kernels::kSoftmaxTypes - DataTypeSet(DataType::kBFloat16)}},
     .in_place = {{0, 0}},
     .make = Make<BiasSoftmax>},
});

}  // namespace
}  // namespace cudaep::ops
