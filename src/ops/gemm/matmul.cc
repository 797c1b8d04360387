// MatMul, and com.microsoft's FusedMatMul and TransposeMatMul. Compiled regions make `MatMul` of the fused domain:
// activation(alpha * A * B + bias + residual), the bias of the last dimension, the residual of the result's dimensions,
// with the attributes of FusedMatMul, "activation" as ActivationName has it, "activation_params" and "own_weights"
// (short_product.h).
#include "ops/gemm/matmul.h"

#include "ops/activation_attributes.h"
#include "ops/gemm/short_product.h"
#include "ops/gemm/turned_weight.h"
#include "ops/registry.h"

namespace cudaep::ops {

Result<std::unique_ptr<MatMul>> MatMul::Create(const OpInfo& info) {
  auto op = std::make_unique<MatMul>();
  CUDAEP_RETURN_IF_ERROR(op->Read(info));
  return op;
}

Status MatMul::Read(const OpInfo& info, bool many) {
  type_ = info.input_type(0);
  options_ = ProductOptions(info.settings());
  options_.constant_a = info.is_constant(0);
  options_.constant_b = info.is_constant(1);
  options_.constant_bias = info.is_constant(kBias);
  options_.compiles &= !info.has_input(kBias) || options_.constant_bias;
  CUDAEP_ASSIGN_OR_RETURN(epilogue_, ParseActivation(info));
  epilogue_.alpha = info.FloatOr("alpha", 1.0f);
  epilogue_.bias = info.has_input(kBias);
  epilogue_.beta = info.has_input(kResidual) ? 1.0f : 0.0f;
  a_ = {info.BoolOr("transA", false), info.BoolOr("transBatchA", false)};
  b_ = {info.BoolOr("transB", false), info.BoolOr("transBatchB", false)};
  const bool plain = !a_.transpose && !a_.transpose_batch && epilogue_.alpha == 1.0f;
  many |= PacksManyRows(epilogue_.activation, epilogue_.residual());
  options_.may_be_short = plain && MayBeShort(info, kB, !b_.transpose, many);
  return Status::Ok();
}

Status MatMul::InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const {
  CUDAEP_ASSIGN_OR_RETURN(const MatMulGeometry geometry, PlaceMatMul(inputs[0].dims(), a_, inputs[1].dims(), b_));
  const Dims y = geometry.output;
  if (epilogue_.bias && (y.empty() || !SameDims(inputs[kBias].dims(), y.last(1)))) {
    return InvalidArgument("the bias ", inputs[kBias].dims(), " must have the last dimension of the result ", y);
  }
  if (epilogue_.residual() && !SameDims(inputs[kResidual].dims(), y)) {
    return InvalidArgument("the residual ", inputs[kResidual].dims(), " must have the dimensions of the result ", y);
  }
  outputs[0] = geometry.output;
  return Status::Ok();
}

Result<PlanPtr> MatMul::MakePlan(const PlanContext& context) const {
  auto plan = std::make_unique<MatMulPlan>();
  CUDAEP_ASSIGN_OR_RETURN(MatMulGeometry geometry,
                          PlaceMatMul(context.inputs[0].dims(), a_, context.inputs[1].dims(), b_));
  if (geometry.launches.empty()) return PlanPtr(std::move(plan));
  plan->cost_flops = ProductFlops(context.outputs[0], geometry.problem.k);
  geometry.problem.types = lib::MixedTypes::Of(type_);
  geometry.problem.epilogue = epilogue_;
  if (context.inputs[kB].packed) geometry.problem.transpose_b = true, geometry.problem.ldb = geometry.problem.k;
  CUDAEP_ASSIGN_OR_RETURN(plan->product, MatrixProduct::Make(context.runtime, geometry.problem, options_));
  plan->workspace_bytes = plan->product.workspace_bytes();
  plan->settled = plan->product.settled();
  plan->launches = std::move(geometry.launches);
  const int64_t size = static_cast<int64_t>(SizeOf(type_));
  for (GemmOffsets& offset : plan->launches) offset.a *= size, offset.b *= size, offset.y *= size;
  return PlanPtr(std::move(plan));
}

Result<size_t> MatMul::PackedBytes(int index, const TensorView& weight) const {
  return index == kB && options_.may_be_short && !b_.transpose ? PackedShortWeights(weight) : size_t{0};
}

Status MatMul::Pack(int /*index*/, const TensorView& weight, void* packed, StreamContext& runtime) const {
  return TurnWeight(weight, packed, runtime);
}

LibrarySet MatMul::libraries() const { return {.blas = true, .dnn = options_.may_be_short && options_.compiles}; }

Status MatMul::Enqueue(const Plan& plan, const OpContext& context) const {
  const auto& matmul = PlanAs<MatMulPlan>(plan);
  for (const GemmOffsets& offset : matmul.launches) {
    blas::GemmPointers at{.a = context.input<std::byte>(kA) + offset.a,
                          .b = context.input<std::byte>(kB) + offset.b,
                          .c = context.output<std::byte>(0) + offset.y,
                          .workspace = context.workspace};
    if (epilogue_.bias) at.bias = context.input(kBias);
    if (epilogue_.residual()) at.residual = context.input<std::byte>(kResidual) + offset.y;
    CUDAEP_RETURN_IF_ERROR(matmul.product.Enqueue(context.runtime, at));
  }
  return Status::Ok();
}

namespace {

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
    {.domain = kFusedDomain, .op = "MatMul", .types = {{"T", kFloatTypes}}, .make = Make<MatMul>},
});

}  // namespace
}  // namespace cudaep::ops
