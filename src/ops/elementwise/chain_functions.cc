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

constexpr ChainFunction Of(std::string_view name, ChainCode code) { return {name, 1, code, code, code, code}; }
constexpr ChainFunction Of(std::string_view name, ChainCode code, ChainCode fast) {
  return {name, 1, code, code, fast, fast};
}
constexpr ChainFunction OfTwo(std::string_view name, ChainCode code, ChainCode swapped) {
  return {name, 2, code, swapped, code, swapped};
}
constexpr ChainFunction OfTwo(std::string_view name, ChainCode code) { return OfTwo(name, code, code); }

constexpr ChainFunction kFunctions[] = {
    OfTwo("Add", ChainCode::kAdd),
    OfTwo("Sub", ChainCode::kSubtract, ChainCode::kSubtractFrom),
    OfTwo("Mul", ChainCode::kMultiply),
    {"Div", 2, ChainCode::kDivide, ChainCode::kDivideInto, ChainCode::kFastDivide, ChainCode::kFastDivideInto},
    OfTwo("Pow", ChainCode::kPower, ChainCode::kPowerOf),
    OfTwo("Max", ChainCode::kMaximum),
    OfTwo("Min", ChainCode::kMinimum),
    OfTwo("Less", ChainCode::kLess, ChainCode::kGreater),
    OfTwo("LessOrEqual", ChainCode::kLessOrEqual, ChainCode::kGreaterOrEqual),
    OfTwo("Greater", ChainCode::kGreater, ChainCode::kLess),
    OfTwo("GreaterOrEqual", ChainCode::kGreaterOrEqual, ChainCode::kLessOrEqual),
    OfTwo("Equal", ChainCode::kEqual),
    OfTwo("And", ChainCode::kAnd),
    OfTwo("Or", ChainCode::kOr),
    OfTwo("Xor", ChainCode::kXor),
    {"Where", 3, ChainCode::kSelect, ChainCode::kSelectElse, ChainCode::kSelect, ChainCode::kSelectElse},
    Of("Affine", ChainCode::kAffine),
    Of("Clamp", ChainCode::kClamp),
    Of("Relu", ChainCode::kRelu),
    Of("LeakyRelu", ChainCode::kLeakyRelu),
    Of("ThresholdedRelu", ChainCode::kThresholdedRelu),
    Of("Abs", ChainCode::kAbs),
    Of("Not", ChainCode::kNot),
    Of("Truth", ChainCode::kTruth),
    Of("IsNaN", ChainCode::kIsNaN),
    Of("Floor", ChainCode::kFloor),
    Of("Ceil", ChainCode::kCeil),
    Of("Round", ChainCode::kRound),
    Of("Sign", ChainCode::kSign),
    Of("HardSwish", ChainCode::kHardSwish),
    Of("Float16", ChainCode::kToHalf),
    Of("BFloat16", ChainCode::kToBFloat16),
    Of("Reciprocal", ChainCode::kReciprocal, ChainCode::kFastReciprocal),
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

// -0 changes nothing that it is added to.
bool IsNothing(float summand) { return summand == 0 && std::signbit(summand); }

}  // namespace

const ChainFunction* FindChainFunction(std::string_view name) {
  const auto* const found = std::ranges::find(kFunctions, name, &ChainFunction::name);
  return found == std::end(kFunctions) ? nullptr : found;
}

std::optional<ChainStep> StepOfNumber(ChainCode code, bool swapped, float number, bool fast) {
  const auto step = [](ChainCode as, float a, float b) { return ChainStep(as, kNoChainSource, 0, a, b); };
  switch (code) {
    case ChainCode::kAdd:
      return step(ChainCode::kAffine, 1, number);
    case ChainCode::kSubtract:
      return swapped ? step(ChainCode::kAffine, -1, number) : step(ChainCode::kAffine, 1, -number);
    case ChainCode::kMultiply:
      return step(ChainCode::kAffine, number, -0.0f);
    case ChainCode::kDivide:
      if (swapped || !fast || !std::isnormal(1 / number)) return std::nullopt;
      return step(ChainCode::kAffine, 1 / number, -0.0f);
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
