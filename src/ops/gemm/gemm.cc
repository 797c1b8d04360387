#include "kernels/movement/strided_copy.h"
#include "ops/gemm/gemm_plan.h"
#include "ops/gemm/matrix_product.h"
#include "ops/gemm/short_product.h"
#include "ops/gemm/turned_weight.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct GemmPlan : Plan {
  GemmAddend addend = GemmAddend::kNone;
  kernels::StridedCopy broadcast_c;  // of kBroadcast, to scratch memory
  size_t whole_c = 0;
  MatrixProduct product;
};

class Gemm : public Operator {
 public:
  static Result<std::unique_ptr<Gemm>> Create(const OpInfo& info) {
    auto op = std::make_unique<Gemm>();
    op->type_ = info.input_type(0);
    op->alpha_ = info.FloatOr("alpha", 1.0f);
    op->beta_ = info.FloatOr("beta", 1.0f);
    op->transpose_a_ = info.BoolOr("transA", false);
    op->transpose_b_ = info.BoolOr("transB", false);
    op->options_ = ProductOptions(info.settings());
    op->options_.constant_a = info.is_constant(0);
    op->options_.constant_b = info.is_constant(1);
    op->options_.constant_bias = info.is_constant(2);
    op->options_.compiles &= !info.has_input(2) || op->options_.constant_bias;
    const bool plain =
        !op->transpose_a_ && op->alpha_ == 1.0f && (!info.has_input(2) || op->beta_ == 0.0f || op->beta_ == 1.0f);
    op->options_.may_be_short = plain && MayBeShort(info, 1, !op->transpose_b_);
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const GemmGeometry geometry, Place(inputs));
    outputs[0] = {geometry.problem.m, geometry.problem.n};
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<GemmPlan>();
    CUDAEP_ASSIGN_OR_RETURN(GemmGeometry geometry, Place(context.inputs));
    if (context.outputs[0].elems() == 0) return PlanPtr(std::move(plan));
    plan->addend = geometry.addend;
    plan->cost_flops = ProductFlops(context.outputs[0], geometry.problem.k);
    geometry.problem.types = lib::MixedTypes::Of(type_);
    geometry.problem.epilogue.alpha = alpha_;
    if (context.inputs[1].packed) geometry.problem.transpose_b = true, geometry.problem.ldb = geometry.problem.k;
    CUDAEP_ASSIGN_OR_RETURN(plan->product, MatrixProduct::Make(context.runtime, geometry.problem, options_));
    plan->workspace_bytes = plan->product.workspace_bytes();
    if (geometry.addend == GemmAddend::kBroadcast) {
      const Shape strides{geometry.c_row_stride, geometry.c_column_stride};
      CUDAEP_ASSIGN_OR_RETURN(plan->broadcast_c,
                              kernels::MakeStridedCopy(context.outputs[0], strides, 0, SizeOf(type_)));
      // Not to Y: what the library adds to its own results in place it has rounded before (cuBLASLt 13.1, 16 bits).
      plan->whole_c = plan->AddScratch(StorageBytes(type_, context.outputs[0].elems()));
    }
    plan->settled = plan->product.settled();
    return PlanPtr(std::move(plan));
  }

  Result<size_t> PackedBytes(int index, const TensorView& weight) const override {
    return index == 1 && options_.may_be_short && !transpose_b_ ? PackedShortWeights(weight) : size_t{0};
  }

  Status Pack(int /*index*/, const TensorView& weight, void* packed, StreamContext& runtime) const override {
    return TurnWeight(weight, packed, runtime);
  }

  LibrarySet libraries() const override { return {.blas = true, .dnn = options_.may_be_short && options_.compiles}; }

  Status Enqueue(const Plan& base_plan, const OpContext& context) const override {
    const auto& plan = PlanAs<GemmPlan>(base_plan);
    blas::GemmPointers at{
        .a = context.input(0), .b = context.input(1), .c = context.output(0), .workspace = context.workspace};
    if (plan.addend == GemmAddend::kBias) at.bias = context.input(2);
    if (plan.addend == GemmAddend::kResidual) at.residual = context.input(2);
    if (plan.addend == GemmAddend::kBroadcast) {
      void* const whole = context.scratch(plan.whole_c);
      CUDAEP_RETURN_IF_ERROR(kernels::LaunchStridedCopy(plan.broadcast_c, context.input(2), whole, context.stream()));
      at.residual = whole;
    }
    return plan.product.Enqueue(context.runtime, at);
  }

 private:
  Result<GemmGeometry> Place(TensorViews inputs) const {
    const bool has_c = inputs.size() > 2 && inputs[2].present();
    const Dims c = has_c ? inputs[2].dims() : Dims();
    return PlaceGemm(inputs[0].dims(), transpose_a_, inputs[1].dims(), transpose_b_, has_c ? &c : nullptr, beta_);
  }

  DataType type_ = DataType::kFloat;
  float alpha_ = 1.0f, beta_ = 1.0f;
  bool transpose_a_ = false, transpose_b_ = false;
  ProductOptions options_;
};

constexpr DataTypeSet kGemmTypes =
    kFloatTypes | DataTypeSet{DataType::kInt32, DataType::kInt64, DataType::kUint32, DataType::kUint64};

const RegisterRows kRows({
    {.op = "Gemm", .since = 7, .until = 13, .types = {{"T", kGemmTypes}}, .make = Make<Gemm>},
});

}  // namespace
}  // namespace cudaep::ops
