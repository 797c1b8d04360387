// Element-wise operators of one tensor: a row here and a functor in kernels/elementwise/unary_*.cu.
#include "kernels/elementwise/unary.h"

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct Attribute {
  const char* name = nullptr;
  float fallback = 0;
};

// Where a functor's alpha and beta come from.
struct Parameters {
  std::string_view op;
  Attribute alpha, beta;
};

constexpr Parameters kParameters[] = {
    {"Celu", {"alpha", 1.0f}, {}},
    {"Clip", {"min", -3.402823466e+38f}, {"max", 3.402823466e+38f}},  // before version 11
    {"Elu", {"alpha", 1.0f}, {}},
    {"HardSigmoid", {"alpha", 0.2f}, {"beta", 0.5f}},
    {"LeakyRelu", {"alpha", 0.01f}, {}},
    {"QuickGelu", {"alpha", 1.702f}, {}},
    {"Selu", {"alpha", 1.67326319217681884765625f}, {"gamma", 1.05070102214813232421875f}},
    {"Shrink", {"lambd", 0.5f}, {"bias", 0.0f}},
    {"Swish", {"alpha", 1.0f}, {}},
    {"ThresholdedRelu", {"alpha", 1.0f}, {}},
};

// Functors that are not named after their operator.
std::string_view FunctorOf(std::string_view op) {
  if (op == "Clip") return "ClipToConstants";
  if (op == "QuickGelu") return "Swish";
  return op;
}

class Unary : public Operator {
 public:
  Unary(kernels::UnaryKernel kernel, double alpha, double beta) : kernel_(kernel), alpha_(alpha), beta_(beta) {}

  static Result<std::unique_ptr<Unary>> Create(const OpInfo& info) {
    double alpha = 0, beta = 0;
    for (const Parameters& parameters : kParameters) {
      if (parameters.op != info.op_type()) continue;
      alpha = info.FloatOr(parameters.alpha.name, parameters.alpha.fallback);
      if (parameters.beta.name != nullptr) beta = info.FloatOr(parameters.beta.name, parameters.beta.fallback);
    }
    if (info.op_type() == "IsInf") {
      alpha = info.BoolOr("detect_negative", true) ? 1 : 0;
      beta = info.BoolOr("detect_positive", true) ? 1 : 0;
    }
    const kernels::UnaryKernel kernel = kernels::FindUnaryKernel(FunctorOf(info.op_type()), info.input_type(0));
    if (kernel == nullptr) return NotSupported("element type ", DataTypeName(info.input_type(0)));
    return std::make_unique<Unary>(kernel, alpha, beta);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0] = Shape(inputs[0].dims());
    return Status::Ok();
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernel_({.x = context.input(0),
                    .y = context.output(0),
                    .elems = plan.outputs[0].elems(),
                    .alpha = alpha_,
                    .beta = beta_},
                   context.stream());
  }

 private:
  kernels::UnaryKernel kernel_;
  double alpha_, beta_;
};

KernelRow Row(const char* op, int since, int until, DataTypeSet types = kFloatTypes) {
  return {.op = op, .since = since, .until = until, .types = {{"T", types}}, .in_place = {{0, 0}}, .make = Make<Unary>};
}

// Float in, bool out.
KernelRow Question(const char* op, int since, int until) {
  return {.op = op,
          .since = since,
          .until = until,
          .types = {{"T1", kFloatTypes}, {"T2", DataType::kBool}},
          .make = Make<Unary>};
}

KernelRow Microsoft(KernelRow row) {
  row.domain = kMicrosoftDomain;
  return row;
}

const RegisterRows kRows({
    Row("Abs", 6, 13, kNumericTypes),
    Row("Acos", 7, 22),
    Row("Acosh", 9, 22),
    Row("Asin", 7, 22),
    Row("Asinh", 9, 22),
    Row("Atan", 7, 22),
    Row("Atanh", 9, 22),
    Row("BitwiseNot", 18, 18, kIntTypes),
    Row("Ceil", 6, 13),
    Row("Celu", 12, 12, DataType::kFloat),
    Row("Clip", 6, 6),
    Row("Cos", 7, 22),
    Row("Cosh", 9, 22),
    Row("Elu", 6, 22),
    Row("Erf", 9, 13),
    Row("Exp", 6, 13),
    Row("Floor", 6, 13),
    Row("HardSigmoid", 6, 22),
    Row("HardSwish", 14, 22),
    Question("IsInf", 10, 20),
    Question("IsNaN", 9, 20),
    Row("LeakyRelu", 6, 16),
    Row("Log", 6, 13),
    Row("Mish", 18, 22),
    Row("Neg", 6, 13, kFloatTypes | kSignedIntTypes),
    Row("Not", 1, 1, DataType::kBool),
    Row("Reciprocal", 6, 13),
    Row("Relu", 6, 14, kFloatTypes | kSignedIntTypes),
    Row("Round", 11, 22),
    Row("Selu", 6, 22),
    Row("Shrink", 9, 9, kNumericTypes - DataTypeSet(DataType::kBFloat16)),
    Row("Sigmoid", 6, 13),
    Row("Sign", 9, 13, kNumericTypes),
    Row("Sin", 7, 22),
    Row("Sinh", 9, 22),
    Row("Softplus", 1, 22),
    Row("Softsign", 1, 22),
    Row("Sqrt", 6, 13),
    Row("Swish", 24, 24),
    Row("Tan", 7, 22),
    Row("Tanh", 6, 13),
    Row("ThresholdedRelu", 10, 22),
    Microsoft(Row("QuickGelu", 1, 1)),
});

}  // namespace
}  // namespace cudaep::ops
