// Arithmetic that several functors share, on compute types, defined for every input: NaN propagates, integers wrap.
#pragma once

#include <cmath>
#include <type_traits>

#include "device/launch.h"

namespace cudaep::kernels {

// numpy's maximum and minimum: NaN if either is.
template <class T>
__device__ __forceinline__ T MaxOf(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a > b || a != a ? a : b;
  } else {
    return a > b ? a : b;
  }
}
template <class T>
__device__ __forceinline__ T MinOf(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a < b || a != a ? a : b;
  } else {
    return a < b ? a : b;
  }
}

// max(low, min(x, high)) for low <= high.
template <class T>
__device__ __forceinline__ T ClampTo(T x, T low, T high) {
  return x < low ? low : x > high ? high : x;
}

// -x; the lowest integer is its own negative.
template <class T>
__device__ __forceinline__ T Negate(T x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(0u - static_cast<std::make_unsigned_t<T>>(x));
  } else {
    return -x;
  }
}

// 1 / (1 + exp(-x)), relative error below 1e-6.
__device__ __forceinline__ float FastSigmoid(float x) { return device::FastDivide(1.0f, 1.0f + device::FastExp(-x)); }

// Relative error below 1e-5: by exp, or its series where that would cancel.
__device__ __forceinline__ float FastTanhOf(float x) {
  const float magnitude = std::fabs(x);
  if (magnitude < 0.04f) return x * (1.0f - x * x * (1.0f / 3.0f));
  const float e = device::FastExp(-2.0f * magnitude);
  return std::copysign(device::FastDivide(1.0f - e, 1.0f + e), x);
}

// The normal distribution's integral from -infinity to x, to some 7 units in the last place also where it is tiny;
// anything for NaN. With z = |x| / sqrt(2), exp(z^2) erfc(z) / 2 is t p(t), t = 1 / (1 + 0.49 z), with the polynomial p
// of least relative error for z from 0 to 10.5, fitted by Lawson's iteration: 2.3e-8. The square's rounding is carried
// into the exponent.
__device__ __forceinline__ float NormalCdf(float x) {
  constexpr float kHalfLog2E = 0.72134752044448170f, kHalfLog2ERest = 0.5f * 1.9259629911266175e-8f;
  constexpr float kRounding = 12582912.0f;             // 1.5 * 2^23: what is added to it is rounded to an integer
  const float magnitude = fminf(std::fabs(x), 20.0f);  // where the result is 0 or 1
  const float t = device::FastDivide(1.0f, fmaf(magnitude, 0.49f * 0.70710678118654752f, 1.0f));
  float p = -0.02866234816610813f;
  for (const float c : {0.14514657855033875f, -0.26701778173446655f, 0.17916414141654968f, -0.03335633873939514f,
                        0.10992804914712906f, 0.11802022159099579f, 0.13856445252895355f, 0.13821300864219666f}) {
    p = fmaf(p, t, c);
  }
  const float square = magnitude * magnitude, rest = fmaf(magnitude, magnitude, -square);
  const float exponent = fmaf(square, -kHalfLog2E, kRounding) - kRounding;
  float fraction = fmaf(square, -kHalfLog2E, -exponent);
  fraction = fmaf(square, -kHalfLog2ERest, fraction);
  fraction = fmaf(rest, -kHalfLog2E, fraction);
  const float tail = t * p * device::FastExp2(fraction) * device::FastExp2(exponent);
  return x < 0 ? tail : 1.0f - tail;
}
__device__ __forceinline__ double NormalCdf(double x) { return 0.5 * std::erfc(x * -0.70710678118654752440); }

// exp(x) - 1 for x < 0, x otherwise: the shape that the ELU family scales. NaN stays NaN.
template <class T>
__device__ __forceinline__ T ExpMinusOneBelowZero(T x) {
  return x < T(0) ? std::expm1(x) : x;
}

// log(1 + exp(x)) without overflow.
template <class T>
__device__ __forceinline__ T SoftplusOf(T x) {
  return x > T(0) ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

}  // namespace cudaep::kernels
