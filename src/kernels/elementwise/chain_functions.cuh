// What steps of a chain compute that is more than an instruction or two: each as the operator of its name does.
#pragma once

#include "kernels/elementwise/chain.h"
#include "kernels/epilogue/activate.cuh"

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

// Calls `each` with the function of a step of x, if it is one of those that are done a few elements at a time.
template <class Each>
__device__ __forceinline__ bool WithLongFunction(const ChainStep& step, Each&& each) {
  const float a = step.a, b = step.b;
  const auto activation = [&](Activation which) { WithActivation<float>(which, {}, each); };
  switch (step.code()) {
    case ChainCode::kReciprocal:
      each([](float x) { return 1.0f / x; });
      return true;
    case ChainCode::kSqrt:
      each([](float x) { return std::sqrt(x); });
      return true;
    case ChainCode::kExp:
      each([](float x) { return std::exp(x); });
      return true;
    case ChainCode::kLog:
      each([](float x) { return std::log(x); });
      return true;
    case ChainCode::kErf:
      each([](float x) { return std::erf(x); });
      return true;
    case ChainCode::kSigmoid:
      activation(Activation::kSigmoid);
      return true;
    case ChainCode::kTanh:
      activation(Activation::kTanh);
      return true;
    case ChainCode::kGelu:
      activation(Activation::kGeluErf);
      return true;
    case ChainCode::kGeluTanh:
      activation(Activation::kGeluTanh);
      return true;
    case ChainCode::kSwish:
      each([=](float x) { return x / (1.0f + std::exp(-a * x)); });
      return true;
    case ChainCode::kSoftplus:
      each([](float x) { return SoftplusOf(x); });
      return true;
    case ChainCode::kSoftsign:
      each([](float x) { return x / (1.0f + std::fabs(x)); });
      return true;
    case ChainCode::kMish:
      each([](float x) { return x * std::tanh(SoftplusOf(x)); });
      return true;
    case ChainCode::kElu:
      each([=](float x) { return ChainElu(x, a); });
      return true;
    case ChainCode::kSelu:
      each([=](float x) { return b * ChainElu(x, a); });
      return true;
    case ChainCode::kCelu:
      each([=](float x) { return MaxOf(0.0f, x) + MinOf(0.0f, a * std::expm1(x / a)); });
      return true;
    case ChainCode::kFastReciprocal:
      each([](float x) { return device::FastDivide(1.0f, x); });
      return true;
    case ChainCode::kFastSigmoid:
      each([](float x) { return FastSigmoid(x); });
      return true;
    case ChainCode::kFastTanh:
      each([](float x) { return FastTanhOf(x); });
      return true;
    case ChainCode::kFastGelu:
      each([](float x) { return GeluByErf().Approximate(x); });
      return true;
    case ChainCode::kFastGeluTanh:
      each([](float x) { return GeluByTanh().Approximate(x); });
      return true;
    case ChainCode::kFastSwish:
      each([=](float x) { return x * FastSigmoid(a * x); });
      return true;
    default:
      return false;
  }
}

// The same of x and y.
template <class Each>
__device__ __forceinline__ bool WithLongFunctionOfTwo(ChainCode code, Each&& each) {
  switch (code) {
    case ChainCode::kDivide:
      each([](float x, float y) { return x / y; });
      return true;
    case ChainCode::kDivideInto:
      each([](float x, float y) { return y / x; });
      return true;
    case ChainCode::kPower:
      each([](float x, float y) { return ChainPower(x, y); });
      return true;
    case ChainCode::kPowerOf:
      each([](float x, float y) { return ChainPower(y, x); });
      return true;
    case ChainCode::kFastDivide:
      each([](float x, float y) { return device::FastDivide(x, y); });
      return true;
    case ChainCode::kFastDivideInto:
      each([](float x, float y) { return device::FastDivide(y, x); });
      return true;
    default:
      return false;
  }
}

}  // namespace cudaep::kernels
