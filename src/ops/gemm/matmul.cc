// MatMul, and com.microsoft's FusedMatMul and TransposeMatMul.
#include "ops/gemm/gemm_plan.h"
#include "ops/gemm/matrix_product.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct MatMulPlan : Plan {
  MatrixProduct product;
  std::vector<GemmOffsets> launches;  // in bytes
};

class MatMul : public Operator {
 public:
  static Result<std::unique_ptr<MatMul>> Create(const OpInfo& info) {
    auto op = std::make_unique<MatMul>();
    op->type_ = info.input_type(0);
    op->options_ = ProductOptions(info.settings());
    op->options_.constant_a = info.is_constant(0);
    op->options_.constant_b = info.is_constant(1);
    if (info.domain() != kMicrosoftDomain) return op;
    op->alpha_ = info.FloatOr("alpha", 1.0f);
    op->a_ = {info.BoolOr("transA", false), info.BoolOr("transBatchA", false)};
    op->b_ = {info.BoolOr("transB", false), info.BoolOr("transBatchB", false)};
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const MatMulGeometry geometry, PlaceMatMul(inputs[0].dims(), a_, inputs[1].dims(), b_));
    outputs[0] = geometry.output;
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<MatMulPlan>();
    CUDAEP_ASSIGN_OR_RETURN(MatMulGeometry geometry,
                            PlaceMatMul(context.inputs[0].dims(), a_, context.inputs[1].dims(), b_));
    if (geometry.launches.empty()) return PlanPtr(std::move(plan));
    plan->cost_flops = ProductFlops(context.outputs[0], geometry.problem.k);
    geometry.problem.types = lib::MixedTypes::Of(type_);
    geometry.problem.epilogue.alpha = alpha_;
    CUDAEP_ASSIGN_OR_RETURN(plan->product, MatrixProduct::Make(context.runtime, geometry.problem, options_));
    plan->workspace_bytes = plan->product.workspace_bytes();
    plan->launches = std::move(geometry.launches);
    const int64_t size = static_cast<int64_t>(SizeOf(type_));
    for (GemmOffsets& offset : plan->launches) offset.a *= size, offset.b *= size, offset.y *= size;
    return PlanPtr(std::move(plan));
  }

  LibrarySet libraries() const override { return {.blas = true}; }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& matmul = PlanAs<MatMulPlan>(plan);
    for (const GemmOffsets& offset : matmul.launches) {
      CUDAEP_RETURN_IF_ERROR(matmul.product.Enqueue(context.runtime, {.a = context.input<std::byte>(0) + offset.a,
                                                                      .b = context.input<std::byte>(1) + offset.b,
                                                                      .c = context.output<std::byte>(0) + offset.y,
                                                                      .workspace = context.workspace}));
    }
    return Status::Ok();
  }

 private:
  DataType type_ = DataType::kFloat;
  float alpha_ = 1.0f;
  OperandForm a_, b_;
  ProductOptions options_;
};

constexpr DataTypeSet kMatMulTypes =
    kFloatTypes | DataTypeSet{DataType::kInt32, DataType::kInt64, DataType::kUint32, DataType::kUint64};

const RegisterRows kRows({
    {.op = "MatMul", .since = 1, .until = 13, .types = {{"T", kMatMulTypes}}, .make = Make<MatMul>},
    {.domain = kMicrosoftDomain,
     .op = "FusedMatMul",
     .since = 1,
     .until = 1,
     .types = {{"T", kFloatTypes}},
     .make = Make<MatMul>},
    {.domain = kMicrosoftDomain,
     .op = "TransposeMatMul",
     .since = 1,
     .until = 1,
     .types = {{"T", kFloatTypes}},
     .make = Make<MatMul>},
});

}  // namespace
}  // namespace cudaep::ops
