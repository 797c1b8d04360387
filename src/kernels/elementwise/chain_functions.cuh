// What steps of a chain compute that is more than an instruction or two: each as the operator of its name does.
#pragma once

#include "kernels/elementwise/chain.h"
#include "kernels/epilogue/activate.cuh"
#include "kernels/quant/linear_value.cuh"

namespace cudaep::kernels {

// MaxOf and MinOf in one instruction; the sign of a zero beside the other zero is left open.
__device__ __forceinline__ float ChainMax(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return MaxOf(a, b);
#endif
}
__device__ __forceinline__ float ChainMin(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return MinOf(a, b);
#endif
}

__device__ __forceinline__ float ChainPower(float base, float exponent) {
  if (exponent == 2.0f) return base * base;
  if (exponent == 1.0f) return base;
  if (exponent == 0.5f && base > 0.0f) return std::sqrt(base);
  return std::pow(base, exponent);
}

__device__ __forceinline__ float ChainElu(float x, float alpha) { return x < 0.0f ? alpha * std::expm1(x) : x; }

// A fp32 between 2^23 and 2^24 has its integer, rounded to nearest, ties to even, in its last bits.
inline constexpr float kWholeBits = 0x1.8p23f;

// To the whole number from `lowest` to 255 more that is nearest to x / scale. x is cut off before the division, so that
// nothing is infinite in it, and NaN is the lowest.
class ChainQuantizer {
 public:
  __device__ __forceinline__ ChainQuantizer(float scale, float lowest)
      : divide_(scale), least_(lowest * scale), most_((lowest + 255.0f) * scale) {}

  __device__ __forceinline__ float operator()(float x) const {
    float largest = 0;
    return (divide_.Near(fminf(fmaxf(x, least_), most_), largest) + kWholeBits) - kWholeBits;
  }

 private:
  QuickDivider<false> divide_;
  float least_, most_;
};

// Calls `each` with the function of a step of x, which is one of those that are done a few elements at a time.
template <class Each>
__device__ __forceinline__ void WithLongFunction(const ChainStep& step, Each&& each) {
  const float a = step.a, b = step.b;
  const auto activation = [&](Activation which) { WithActivation<float>(which, {}, each); };
  switch (step.code()) {
    case ChainCode::kReciprocal:
      return each([](float x) { return 1.0f / x; });
    case ChainCode::kSqrt:
      return each([](float x) { return std::sqrt(x); });
    case ChainCode::kExp:
      return each([](float x) { return std::exp(x); });
    case ChainCode::kLog:
      return each([](float x) { return std::log(x); });
    case ChainCode::kErf:
      return each([](float x) { return std::erf(x); });
    case ChainCode::kSigmoid:
      return activation(Activation::kSigmoid);
    case ChainCode::kTanh:
      return activation(Activation::kTanh);
    case ChainCode::kGelu:
      return activation(Activation::kGeluErf);
    case ChainCode::kGeluTanh:
      return activation(Activation::kGeluTanh);
    case ChainCode::kSwish:
      return each([=](float x) { return x / (1.0f + std::exp(-a * x)); });
    case ChainCode::kSoftplus:
      return each([](float x) { return SoftplusOf(x); });
    case ChainCode::kSoftsign:
      return each([](float x) { return x / (1.0f + std::fabs(x)); });
    case ChainCode::kMish:
      return each([](float x) { return x * std::tanh(SoftplusOf(x)); });
    case ChainCode::kElu:
      return each([=](float x) { return ChainElu(x, a); });
    case ChainCode::kSelu:
      return each([=](float x) { return b * ChainElu(x, a); });
    case ChainCode::kCelu:
      return each([=](float x) { return MaxOf(0.0f, x) + MinOf(0.0f, a * std::expm1(x / a)); });
    case ChainCode::kFastSigmoid:
      return each([](float x) { return FastSigmoid(x); });
    case ChainCode::kFastTanh:
      return each([](float x) { return FastTanhOf(x); });
    case ChainCode::kFastGelu:
      return each([](float x) { return GeluByErf().Approximate(x); });
    case ChainCode::kFastGeluTanh:
      return each([](float x) { return GeluByTanh().Approximate(x); });
    case ChainCode::kFastSwish:
      return each([=](float x) { return x * FastSigmoid(a * x); });
    default:
      __trap();
  }
}

// The same of x and y.
template <class Each>
__device__ __forceinline__ void WithLongFunctionOfTwo(ChainCode code, Each&& each) {
  switch (code) {
    case ChainCode::kDivide:
      return each([](float x, float y) { return x / y; });
    case ChainCode::kDivideInto:
      return each([](float x, float y) { return y / x; });
    case ChainCode::kPower:
      return each([](float x, float y) { return ChainPower(x, y); });
    case ChainCode::kPowerOf:
      return each([](float x, float y) { return ChainPower(y, x); });
    default:
      __trap();
  }
}

}  // namespace cudaep::kernels
