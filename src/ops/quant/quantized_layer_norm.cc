// QuantizedLayerNormalization, which compiled regions make of LayerNormalization along the last dimension between
// codes, and of the sum of codes in front of it: DequantizeLinear, Add, QuantizeLinear, DequantizeLinear,
// LayerNormalization, QuantizeLinear.
//
//   inputs      x, x_scale, x_zero; residual of x's dimensions, residual_scale, residual_zero, or nothing; sum_scale,
//               sum_zero of their sum where that becomes codes; gamma and beta (or nothing), of fp32, an element for
//               each column; y_scale, y_zero. Scales and zero points are one element each, in host memory.
//   attributes  epsilon
#include "kernels/quant/quantized_layer_norm.h"

#include "ops/optional_input.h"
#include "ops/quant/qlinear_value.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : uint8_t {
  kX,
  kXScale,
  kXZero,
  kResidual,
  kResidualScale,
  kResidualZero,
  kSumScale,
  kSumZero,
  kGamma,
  kBeta,
  kYScale,
  kYZero
};

struct QuantizedLayerNormPlan : Plan {
  kernels::QuantizedLayerNorm norm;
};

Result<kernels::CodeCoding> CodingOf(TensorViews inputs, Input scale, Input zero, DataType codes) {
  CUDAEP_ASSIGN_OR_RETURN(const QLinearValue linear, ReadQLinear(inputs, scale, zero));
  return kernels::CodeCoding::Of(linear.scale, linear.zero, codes);
}

class QuantizedLayerNorm final : public Operator {
 public:
  QuantizedLayerNorm(const OpInfo& info, kernels::NormSum of)
      : x_type_(info.input_type(kX)),
        y_type_(info.output_type(0)),
        of_(of),
        has_beta_(info.has_input(kBeta)),
        constant_affine_(info.is_constant(kGamma) && (!has_beta_ || info.is_constant(kBeta))),
        epsilon_(info.FloatOr("epsilon", 1e-5f)) {}

  static Result<std::unique_ptr<QuantizedLayerNorm>> Create(const OpInfo& info) {
    for (const Input input : {kX, kXScale, kGamma, kYScale}) {
      if (!info.has_input(input)) return InvalidArgument("input ", int{input}, " is missing");
    }
    const bool has_residual = info.has_input(kResidual), has_codes = info.has_input(kSumScale);
    if (has_residual != info.has_input(kResidualScale)) return InvalidArgument("a residual comes with its scale");
    if (has_codes && !has_residual) return InvalidArgument("codes of a sum without a residual");
    const auto of = has_codes      ? kernels::NormSum::kCodes
                    : has_residual ? kernels::NormSum::kNumbers
                                   : kernels::NormSum::kNone;
    return std::make_unique<QuantizedLayerNorm>(info, of);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims x = inputs[kX].dims();
    if (x.empty()) return InvalidArgument("a scalar has no rows");
    if (has_residual() && !SameDims(inputs[kResidual].dims(), x)) {
      return InvalidArgument("residual ", inputs[kResidual].dims(), " must have the dimensions of ", x);
    }
    for (const Input input : {kGamma, kBeta}) {
      if (input == kBeta && !has_beta_) continue;
      const Dims dims = inputs[input].dims();
      if (dims.size() != 1 || dims[0] != x.back()) {
        return InvalidArgument("scale or bias ", dims, " must have an element for each column of ", x);
      }
    }
    outputs[0].Assign(x);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorViews inputs = context.inputs;
    const Dims x = inputs[kX].dims();
    auto plan = std::make_unique<QuantizedLayerNormPlan>();
    kernels::QuantizedLayerNorm& norm = plan->norm;
    norm = {.rows = ElementCount(x.first(x.size() - 1)), .elems = x.back(), .of = of_, .epsilon = epsilon_};
    CUDAEP_ASSIGN_OR_RETURN(norm.x, CodingOf(inputs, kXScale, kXZero, x_type_));
    if (has_residual()) {
      CUDAEP_ASSIGN_OR_RETURN(norm.residual, CodingOf(inputs, kResidualScale, kResidualZero, inputs[kResidual].type));
    }
    if (of_ == kernels::NormSum::kCodes) {
      CUDAEP_ASSIGN_OR_RETURN(const auto sum, CodingOf(inputs, kSumScale, kSumZero, InputAt(inputs, kSumZero).type));
      norm.sum = kernels::CodeRounding::Of(sum);
    }
    CUDAEP_ASSIGN_OR_RETURN(const auto y, CodingOf(inputs, kYScale, kYZero, y_type_));
    norm.y = kernels::CodeRounding::Of(y);
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchQuantizedLayerNorm(
        PlanAs<QuantizedLayerNormPlan>(plan).norm,
        {.x = context.input(kX),
         .residual = has_residual() ? context.input(kResidual) : nullptr,
         .gamma = static_cast<const float*>(context.input(kGamma)),
         .beta = has_beta_ ? static_cast<const float*>(context.input(kBeta)) : nullptr,
         .y = context.output(0),
         .constant_affine = constant_affine_},
        context.stream());
  }

 private:
  bool has_residual() const { return of_ != kernels::NormSum::kNone; }

  DataType x_type_, y_type_;
  kernels::NormSum of_;
  bool has_beta_, constant_affine_;
  float epsilon_;
};

const RegisterRows kRows({{.domain = kFusedDomain,
                           .op = "QuantizedLayerNormalization",
                           .types = {{"T1", kInt8Types}, {"T2", kInt8Types}, {"T3", kInt8Types}, {"T4", kInt8Types}},
                           .host_inputs = {kXScale, kXZero, kResidualScale, kResidualZero, kSumScale, kSumZero, kYScale,
                                           kYZero},
                           .in_place = {{kX, 0}, {kResidual, 0}},
                           .make = Make<QuantizedLayerNorm>}});

}  // namespace
}  // namespace cudaep::ops
