// Trilu: one triangle of the matrices in the last two dimensions.
#include "kernels/movement/trilu.h"

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct TriluPlan : Plan {
  kernels::Triangle triangle;
};

class Trilu final : public Operator {
 public:
  explicit Trilu(bool upper) : upper_(upper) {}

  static Result<std::unique_ptr<Trilu>> Create(const OpInfo& info) {
    return std::make_unique<Trilu>(info.BoolOr("upper", true));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    if (inputs[0].rank < 2) return InvalidArgument("input has shape ", inputs[0].dims(), ", expected matrices");
    if (inputs.size() > 1 && inputs[1].present() && inputs[1].elems() != 1) {
      return InvalidArgument("k has shape ", inputs[1].dims(), ", expected one element");
    }
    outputs[0].Assign(inputs[0].dims());
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorView& x = context.inputs[0];
    const auto outer = static_cast<size_t>(x.rank - 2);
    auto plan = std::make_unique<TriluPlan>();
    plan->triangle = {.matrices = ElementCount(x.dims().first(outer)),
                      .rows = x.dim[x.rank - 2],
                      .columns = x.dim[x.rank - 1],
                      .upper = upper_ ? 1 : 0};
    if (context.inputs.size() > 1 && context.inputs[1].present()) {
      plan->triangle.k = context.inputs[1].host<int64_t>()[0];
    }
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchTrilu(PlanAs<TriluPlan>(plan).triangle, SizeOf(context.inputs[0].type), context.input(0),
                                context.output(0), context.stream());
  }

 private:
  bool upper_;
};

const RegisterRows kRows({
    {.op = "Trilu",
     .since = 14,
     .until = 14,
     .types = {{"T", kFixedSizeTypes}},
     .host_inputs = {1},
     .in_place = {{0, 0}},
     .make = Make<Trilu>},
    {.domain = kMicrosoftDomain,
     .op = "Trilu",
     .since = 1,
     .until = 1,
     .types = {{"T", kNumericTypes | DataTypeSet(DataType::kBool)}},
     .host_inputs = {1},
     .in_place = {{0, 0}},
     .make = Make<Trilu>},
});

}  // namespace
}  // namespace cudaep::ops
