// com.microsoft's Inverse: of each matrix in the last two dimensions.
#include "kernels/linalg/inverse.h"

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

class Inverse final : public Operator {
 public:
  explicit Inverse(DataType type) : type_(type) {}

  static Result<std::unique_ptr<Inverse>> Create(const OpInfo& info) {
    return std::make_unique<Inverse>(info.input_type(0));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims x = inputs[0].dims();
    if (x.size() < 2 || x[x.size() - 1] != x[x.size() - 2]) {
      return InvalidArgument("input ", x, " does not end in square matrices");
    }
    outputs[0].Assign(x);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<Plan>();
    const Dims x = context.inputs[0].dims();
    const int64_t matrices = ElementCount(x.first(x.size() - 2));
    if (matrices > kMostMatrices) return NotSupported(matrices, " matrices, more than ", kMostMatrices);
    plan->workspace_bytes = 2 * static_cast<size_t>(context.inputs[0].elems()) * sizeof(double);
    return plan;
  }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    const Dims x = context.inputs[0].dims();
    return kernels::LaunchInverse({.type = type_,
                                   .x = context.input(0),
                                   .y = context.output(0),
                                   .scratch = context.scratch<double>(0),
                                   .matrices = ElementCount(x.first(x.size() - 2)),
                                   .rows = x.back()},
                                  context.stream());
  }

 private:
  static constexpr int64_t kMostMatrices = (int64_t{1} << 31) - 1;  // blocks of a launch

  DataType type_;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "Inverse",
     .types = {{"T", {DataType::kFloat16, DataType::kFloat, DataType::kDouble}}},
     .in_place = {{0, 0}},
     .make = Make<Inverse>},
});

}  // namespace
}  // namespace cudaep::ops
