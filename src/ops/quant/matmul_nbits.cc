// com.microsoft's MatMulNBits: a product with weights of 2, 4 or 8 bits. Constant weights, scales and zero points are
// packed.
#include "ops/quant/nbits_product.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : int { kA, kB, kScales, kZeroPoints, kGroups, kBias };

struct NBitsPlan : Plan {
  NBitsWay way;
};

class MatMulNBits final : public Operator {
 public:
  explicit MatMulNBits(NBitsProduct product) : product_(std::move(product)) {}

  static Result<std::unique_ptr<MatMulNBits>> Create(const OpInfo& info) {
    if (info.IntOr("weight_prepacked", 0) != 0) return NotSupported("weight_prepacked, the layout of another kernel");
    CUDAEP_ASSIGN_OR_RETURN(
        NBitsProduct product,
        NBitsProduct::Make(
            info, {.a = kA, .b = kB, .scales = kScales, .zero_points = kZeroPoints, .groups = kGroups, .bias = kBias}));
    return std::make_unique<MatMulNBits>(std::move(product));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    return product_.InferShape(inputs, outputs[0]);
  }

  Result<size_t> PackedBytes(int index, const TensorView& weight) const override {
    return product_.PackedBytes(index, weight);
  }
  Status Pack(int index, const TensorView& weight, void* packed, StreamContext& runtime) const override {
    return product_.Pack(index, weight, packed, runtime);
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<NBitsPlan>();
    plan->cost_flops = ProductFlops(context.outputs[0], context.inputs[kA].dims().back());
    CUDAEP_ASSIGN_OR_RETURN(plan->way, product_.MakeWay(context, *plan));
    return PlanPtr(std::move(plan));
  }

  LibrarySet libraries() const override { return {.blas = true}; }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return product_.Enqueue(PlanAs<NBitsPlan>(plan).way, product_.Problem(context.inputs, plan.outputs[0]),
                            product_.Pointers(context, context.output(0)), context);
  }

 private:
  const NBitsProduct product_;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "MatMulNBits",
     .types = {{"T1", kFloatTypesNoDouble},
               {"T2", DataType::kUint8},
               {"T3", kFloatTypesNoDouble | DataTypeSet(DataType::kUint8)},
               {"T4", DataType::kInt32}},
     .make = Make<MatMulNBits>},
});

}  // namespace
}  // namespace cudaep::ops
