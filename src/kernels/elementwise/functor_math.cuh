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

// The normal distribution's integral from -infinity to x, relative error below 2e-5 for all x that float32 can tell
// from minus infinity: exp(z^2) erfc(z) is a polynomial of t = 1 / (1 + 0.65 z), fitted for the smallest relative
// error.
__device__ __forceinline__ float FastNormalCdf(float x) {
  const float z = std::fabs(x) * 0.70710678f;
  const float t = device::FastDivide(1.0f, 1.0f + 0.65f * z);
  const float series =
      t *
      (0.36639114f + t * (0.37380907f + t * (0.23216478f + t * (0.35571312f + t * (-0.47173301f + t * 0.14366037f)))));
  const float tail = 0.5f * series * device::FastExp(-z * z);
  return x < 0 ? tail : 1.0f - tail;
}

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
