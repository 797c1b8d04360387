// Element-wise operators of one tensor: an entry of the table here and a functor in kernels/elementwise/unary_*.cu.
#include "kernels/elementwise/unary.h"

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

// Where a functor's alpha or beta comes from.
struct Attribute {
  const char* name = nullptr;
  float fallback = 0;

  double Read(const OpInfo& info) const { return name == nullptr ? 0 : info.FloatOr(name, fallback); }
};

// All there is to know of an operator; its place in the table is the variant of its row.
struct Entry {
  const char* op;
  int since, until;
  DataTypeSet types = kFloatTypes;
  Attribute alpha = {}, beta = {};
  const char* functor = nullptr;  // where it is not named after the operator
  const char* domain = kOnnxDomain;
};

constexpr DataTypeSet kSigned = kFloatTypes | kSignedIntTypes;
constexpr float kLargest = 3.402823466e+38f;

constexpr Entry kEntries[] = {
    {"Abs", 1, 13, kNumericTypes},
    {"Acos", 7, 22},
    {"Acosh", 9, 22},
    {"Asin", 7, 22},
    {"Asinh", 9, 22},
    {"Atan", 7, 22},
    {"Atanh", 9, 22},
    {"BitwiseNot", 18, 18, kIntTypes},
    {"Ceil", 1, 13},
    {"Celu", 12, 12, DataType::kFloat, {"alpha", 1.0f}},
    {"Celu", 28, 28, kFloatTypes, {"alpha", 1.0f}},
    {"Clip", 6, 6, kFloatTypes, {"min", -kLargest}, {"max", kLargest}, "ClipToConstants"},
    {"Cos", 7, 22},
    {"Cosh", 9, 22},
    {"Elu", 1, 22, kFloatTypes, {"alpha", 1.0f}},
    {"Erf", 9, 13},
    {"Exp", 1, 13},
    {"Floor", 1, 13},
    {"HardSigmoid", 1, 22, kFloatTypes, {"alpha", 0.2f}, {"beta", 0.5f}},
    {"HardSwish", 14, 22},
    {"LeakyRelu", 1, 16, kFloatTypes, {"alpha", 0.01f}},
    {"Log", 1, 13},
    {"Mish", 18, 22},
    {"Neg", 1, 13, kSigned},
    {"Not", 1, 1, DataType::kBool},
    {"Reciprocal", 1, 13},
    {"Relu", 1, 14, kSigned},
    {"Round", 11, 22},
    {"Selu", 6, 22, kFloatTypes, {"alpha", 1.67326319217681884765625f}, {"gamma", 1.05070102214813232421875f}},
    {"Shrink", 9, 9, kNumericTypes - DataTypeSet(DataType::kBFloat16), {"lambd", 0.5f}, {"bias", 0.0f}},
    {"Sigmoid", 1, 13},
    {"Sign", 9, 13, kNumericTypes},
    {"Sin", 7, 22},
    {"Sinh", 9, 22},
    {"Softplus", 1, 22},
    {"Softsign", 1, 22},
    {"Sqrt", 1, 13},
    {"Swish", 24, 24, kFloatTypes, {"alpha", 1.0f}},
    {"Tan", 7, 22},
    {"Tanh", 1, 13},
    {"ThresholdedRelu", 10, 22, kFloatTypes, {"alpha", 1.0f}},
    {"QuickGelu", 1, 1, kFloatTypes, {"alpha", 1.702f}, {}, "Swish", kMicrosoftDomain},
};

class Unary : public Operator {
 public:
  Unary(kernels::UnaryKernel kernel, double alpha, double beta) : kernel_(kernel), alpha_(alpha), beta_(beta) {}

  static Result<std::unique_ptr<Unary>> Create(const OpInfo& info, const KernelRow& row) {
    const Entry& entry = kEntries[row.variant];
    const char* const functor = entry.functor == nullptr ? entry.op : entry.functor;
    const kernels::UnaryKernel kernel = kernels::FindUnaryKernel(functor, info.input_type(0));
    if (kernel == nullptr) return NotSupported("element type ", DataTypeName(info.input_type(0)));
    return std::make_unique<Unary>(kernel, entry.alpha.Read(info), entry.beta.Read(info));
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

std::vector<KernelRow> Rows() {
  std::vector<KernelRow> rows;
  for (const Entry& entry : kEntries) {
    rows.push_back({.domain = entry.domain,
                    .op = entry.op,
                    .since = entry.since,
                    .until = entry.until,
                    .types = {{"T", entry.types}},
                    .in_place = {{0, 0}},
                    .variant = static_cast<int>(&entry - kEntries),
                    .make = Make<Unary>});
  }
  return rows;
}

const RegisterRows kRows(Rows());

}  // namespace
}  // namespace cudaep::ops
