// com.microsoft's ComplexMul and ComplexMulConj: products of pairs, the second one's conjugate in the latter.
#include "kernels/elementwise/complex_mul.h"

#include <algorithm>

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum class Variant : uint8_t { kPlain, kConjugate };

struct ComplexMulPlan : Plan {
  kernels::Broadcast<2> pairs;
};

class ComplexMul final : public Operator {
 public:
  ComplexMul(DataType type, bool conjugate) : type_(type), conjugate_(conjugate) {}

  static Result<std::unique_ptr<ComplexMul>> Create(const OpInfo& info, const KernelRow& row) {
    return std::make_unique<ComplexMul>(info.input_type(0), row.VariantAs<Variant>() == Variant::kConjugate);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    for (const TensorView& input : inputs) {
      if (input.rank == 0 || input.dims().back() != 2) {
        return InvalidArgument("input ", input.dims(), " needs a last dimension of real and imaginary part");
      }
    }
    CUDAEP_ASSIGN_OR_RETURN(outputs[0], BroadcastShapes(inputs[0].dims(), inputs[1].dims()));
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<ComplexMulPlan>();
    const auto pairs = [](Dims dims) { return dims.first(dims.size() - 1); };
    CUDAEP_ASSIGN_OR_RETURN(
        plan->pairs, kernels::MakeBroadcast<2>(pairs(context.outputs[0]),
                                               {pairs(context.inputs[0].dims()), pairs(context.inputs[1].dims())}));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchComplexMul(type_, conjugate_, context.input(0), context.input(1),
                                     PlanAs<ComplexMulPlan>(plan).pairs, context.output(0), context.stream());
  }

 private:
  DataType type_;
  bool conjugate_;
};

KernelRow Row(const char* op, Variant variant) {
  return {.domain = kMicrosoftDomain,
          .op = op,
          .types = {{"T", kernels::kComplexMulTypes}},
          .in_place = {{0, 0}, {1, 0}},
          .variant = static_cast<int>(variant),
          .make = Make<ComplexMul>};
}

const RegisterRows kRows({Row("ComplexMul", Variant::kPlain), Row("ComplexMulConj", Variant::kConjugate)});

}  // namespace
}  // namespace cudaep::ops
