#include "ops/elementwise/chain_values.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace cudaep::ops {
namespace {

using kernels::ChainCode;

double GeluTanh(double x) {
  return x / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double Elu(double x, double alpha) { return x < 0 ? alpha * std::expm1(x) : x; }

// Sums and products are fp32's own; other functions are rounded to it.
std::optional<float> OfTwo(ChainCode code, float x, float y) {
  switch (code) {
    case ChainCode::kAdd:
      return x + y;
    case ChainCode::kSubtract:
      return x - y;
    case ChainCode::kMultiply:
      return x * y;
    case ChainCode::kDivide:
      return x / y;
    case ChainCode::kPower:
      return static_cast<float>(std::pow(double{x}, double{y}));
    default:
      return std::nullopt;
  }
}

std::optional<float> Quantized(float x, float scale, float lowest) {
  return std::nearbyint(std::fmin(std::fmax(x / scale, lowest), lowest + 255.0f)) + 0.0f;
}

std::optional<double> OfOne(ChainCode code, double x, double a, double b) {
  switch (code) {
    case ChainCode::kClamp:
      return std::isnan(x) ? x : std::min(std::max(x, a), b);
    case ChainCode::kRelu:
      return std::isnan(x) ? x : std::max(x, 0.0);
    case ChainCode::kLeakyRelu:
      return static_cast<double>(x < 0 ? static_cast<float>(a) * static_cast<float>(x) : static_cast<float>(x));
    case ChainCode::kAbs:
      return std::fabs(x);
    case ChainCode::kHardSwish:
      return x * std::min(std::max(x / 6 + 0.5, 0.0), 1.0);
    case ChainCode::kReciprocal:
      return 1 / x;
    case ChainCode::kSqrt:
      return std::sqrt(x);
    case ChainCode::kExp:
      return std::exp(x);
    case ChainCode::kErf:
      return std::erf(x);
    case ChainCode::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case ChainCode::kTanh:
      return std::tanh(x);
    case ChainCode::kGelu:
      return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
    case ChainCode::kGeluTanh:
      return GeluTanh(x);
    case ChainCode::kSwish:
      return x / (1 + std::exp(-a * x));
    case ChainCode::kElu:
      return Elu(x, a);
    case ChainCode::kSelu:
      return b * Elu(x, a);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<float> ChainValue(const ChainFunction& function, std::span<const float> operands,
                                std::span<const float> numbers) {
  if (function.operands == 2) return OfTwo(function.code, operands[0], operands[1]);
  if (function.operands != 1) return std::nullopt;
  if (function.code == ChainCode::kAffine) return std::fma(numbers[0], operands[0], numbers[1]);
  if (function.code == ChainCode::kQuantize) return Quantized(operands[0], numbers[0], numbers[1]);
  const std::optional<double> value = OfOne(function.code, operands[0], numbers[0], numbers[1]);
  return value ? std::optional(static_cast<float>(*value)) : std::nullopt;
}

}  // namespace cudaep::ops
