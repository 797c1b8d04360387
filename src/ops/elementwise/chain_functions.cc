#include "ops/elementwise/chain_functions.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cudaep::ops {
namespace {

using kernels::ChainCode;
using kernels::ChainStep;
using kernels::kNoChainSource;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr ChainFunction Of(std::string_view name, ChainCode code) { return {name, 1, code, code, code}; }
constexpr ChainFunction Of(std::string_view name, ChainCode code, ChainCode fast) {
  return {name, 1, code, code, fast};
}
constexpr ChainFunction OfTwo(std::string_view name, ChainCode code, ChainCode swapped) {
  return {name, 2, code, swapped, code};
}
constexpr ChainFunction OfTwo(std::string_view name, ChainCode code) { return OfTwo(name, code, code); }
constexpr ChainFunction Exact(ChainFunction function) {
  function.exact = true;
  return function;
}

constexpr ChainFunction kFunctions[] = {
    OfTwo("Add", ChainCode::kAdd),
    OfTwo("Sub", ChainCode::kSubtract, ChainCode::kSubtractFrom),
    OfTwo("Mul", ChainCode::kMultiply),
    OfTwo("Div", ChainCode::kDivide, ChainCode::kDivideInto),
    OfTwo("Pow", ChainCode::kPower, ChainCode::kPowerOf),
    OfTwo("Max", ChainCode::kMaximum),
    OfTwo("Min", ChainCode::kMinimum),
    Exact(OfTwo("Less", ChainCode::kLess, ChainCode::kGreater)),
    Exact(OfTwo("LessOrEqual", ChainCode::kLessOrEqual, ChainCode::kGreaterOrEqual)),
    Exact(OfTwo("Greater", ChainCode::kGreater, ChainCode::kLess)),
    Exact(OfTwo("GreaterOrEqual", ChainCode::kGreaterOrEqual, ChainCode::kLessOrEqual)),
    Exact(OfTwo("Equal", ChainCode::kEqual)),
    OfTwo("And", ChainCode::kAnd),
    OfTwo("Or", ChainCode::kOr),
    OfTwo("Xor", ChainCode::kXor),
    {"Where", 3, ChainCode::kSelect, ChainCode::kSelectElse, ChainCode::kSelect},
    Exact(OfTwo("LookUp", ChainCode::kLookUp)),
    Of("Affine", ChainCode::kAffine),
    Exact(Of("Float32", ChainCode::kAffine)),
    Of("Clamp", ChainCode::kClamp),
    Of("Relu", ChainCode::kRelu),
    Of("LeakyRelu", ChainCode::kLeakyRelu),
    Exact(Of("ThresholdedRelu", ChainCode::kThresholdedRelu)),
    Of("Abs", ChainCode::kAbs),
    Of("Not", ChainCode::kNot),
    Exact(Of("Truth", ChainCode::kTruth)),
    Exact(Of("IsNaN", ChainCode::kIsNaN)),
    Exact(Of("Floor", ChainCode::kFloor)),
    Exact(Of("Ceil", ChainCode::kCeil)),
    Exact(Of("Round", ChainCode::kRound)),
    Exact(Of("Sign", ChainCode::kSign)),
    Of("HardSwish", ChainCode::kHardSwish),
    Of("Float16", ChainCode::kToHalf),
    Of("BFloat16", ChainCode::kToBFloat16),
    Exact(Of("Quantize", ChainCode::kQuantize)),
    Of("Reciprocal", ChainCode::kReciprocal),
    Of("Sqrt", ChainCode::kSqrt),
    Of("Exp", ChainCode::kExp),
    Of("Log", ChainCode::kLog),
    Of("Erf", ChainCode::kErf),
    Of("Sigmoid", ChainCode::kSigmoid, ChainCode::kFastSigmoid),
    Of("Tanh", ChainCode::kTanh, ChainCode::kFastTanh),
    Of("Gelu", ChainCode::kGelu, ChainCode::kFastGelu),
    Of("GeluTanh", ChainCode::kGeluTanh, ChainCode::kFastGeluTanh),
    Of("Swish", ChainCode::kSwish, ChainCode::kFastSwish),
    Of("Softplus", ChainCode::kSoftplus),
    Of("Softsign", ChainCode::kSoftsign),
    Of("Mish", ChainCode::kMish),
    Of("Elu", ChainCode::kElu),
    Of("Selu", ChainCode::kSelu),
    Of("Celu", ChainCode::kCelu),
};

// Of powers of two, whose reciprocal has no error.
std::optional<float> ExactReciprocal(float number) {
  int exponent = 0;
  const float reciprocal = 1 / number;
  if (std::fabs(std::frexp(number, &exponent)) != 0.5f || !std::isnormal(reciprocal)) return std::nullopt;
  return reciprocal;
}

// -0 changes nothing that it is added to.
bool IsNothing(float summand) { return summand == 0 && std::signbit(summand); }

}  // namespace

const ChainFunction* FindChainFunction(std::string_view name) {
  const auto* const found = std::ranges::find(kFunctions, name, &ChainFunction::name);
  return found == std::end(kFunctions) ? nullptr : found;
}

std::optional<ChainStep> StepOfNumber(ChainCode code, bool swapped, float number) {
  const auto step = [](ChainCode as, float a, float b) { return ChainStep(as, kNoChainSource, 0, a, b); };
  switch (code) {
    case ChainCode::kAdd:
      return step(ChainCode::kAffine, 1, number);
    case ChainCode::kSubtract:
      return swapped ? step(ChainCode::kAffine, -1, number) : step(ChainCode::kAffine, 1, -number);
    case ChainCode::kMultiply:
      return step(ChainCode::kAffine, number, -0.0f);
    case ChainCode::kDivide:
      if (swapped || !ExactReciprocal(number)) return std::nullopt;
      return step(ChainCode::kAffine, *ExactReciprocal(number), -0.0f);
    case ChainCode::kMaximum:
      if (std::isnan(number)) return std::nullopt;
      return step(ChainCode::kClamp, number, kInfinity);
    case ChainCode::kMinimum:
      if (std::isnan(number)) return std::nullopt;
      return step(ChainCode::kClamp, -kInfinity, number);
    case ChainCode::kPower:
      if (swapped || number != 2) return std::nullopt;
      return step(ChainCode::kSquare, 0, 0);
    default:
      return std::nullopt;
  }
}

bool ChangesNothing(const ChainStep& step) {
  return step.code() == ChainCode::kAffine && step.a == 1 && IsNothing(step.b);
}

bool JoinSteps(ChainStep& first, const ChainStep& second) {
  if (first.code() != second.code()) return false;
  if (first.code() == ChainCode::kAffine && second.a == 1 && IsNothing(first.b)) {
    first.b = second.b;
    return true;
  }
  if (first.code() == ChainCode::kClamp && first.b == kInfinity && second.a == -kInfinity && first.a <= second.b) {
    first.b = second.b;
    return true;
  }
  return false;
}

}  // namespace cudaep::ops
