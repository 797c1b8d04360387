// Det: the determinant of each matrix in the last two dimensions.
#include "kernels/linalg/determinant.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

class Det : public Operator {
 public:
  explicit Det(DataType type) : type_(type) {}

  static Result<std::unique_ptr<Det>> Create(const OpInfo& info) { return std::make_unique<Det>(info.input_type(0)); }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims x = inputs[0].dims();
    if (x.size() < 2 || x[x.size() - 1] != x[x.size() - 2]) {
      return InvalidArgument("input ", x, " does not end in square matrices");
    }
    outputs[0].Assign(x.first(x.size() - 2));
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<Plan>();
    plan->workspace_bytes = static_cast<size_t>(context.inputs[0].elems()) * sizeof(double);
    if (context.outputs[0].elems() > kMostMatrices) {
      return NotSupported(context.outputs[0].elems(), " matrices, more than ", kMostMatrices);
    }
    return plan;
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchDeterminant({.type = type_,
                                       .x = context.input(0),
                                       .y = context.output(0),
                                       .scratch = context.scratch<double>(0),
                                       .matrices = plan.outputs[0].elems(),
                                       .rows = context.inputs[0].dims().back()},
                                      context.stream());
  }

 private:
  static constexpr int64_t kMostMatrices = (int64_t{1} << 31) - 1;  // blocks of a launch

  DataType type_;
};

const RegisterRows kRows({
    {.op = "Det", .since = 11, .until = 22, .types = {{"T", kFloatTypes}}, .make = Make<Det>},
});

}  // namespace
}  // namespace cudaep::ops
