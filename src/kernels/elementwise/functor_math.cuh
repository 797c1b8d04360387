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

// The normal distribution's integral from -infinity to x, to a few units in the last place also where it is tiny.
__device__ __forceinline__ float NormalCdf(float x) {
#if defined(__CUDA_ARCH__)
  return normcdff(x);
#else
  return static_cast<float>(0.5 * std::erfc(x * -0.70710678118654752440));
#endif
}
__device__ __forceinline__ double NormalCdf(double x) { return 0.5 * std::erfc(x * -0.70710678118654752440); }

// The same, relative error below 1e-5 for every x with a result above the smallest normal number.
// exp(z^2) erfc(z) / 2 is t p(t) with t = 1 / (1 + 0.44 z) and the polynomial p of least relative error, fitted for z
// from 0 to 10.5 by Lawson's iteration: 5.3e-6.
__device__ __forceinline__ float FastNormalCdf(float x) {
  const float z = std::fabs(x) * 0.70710678f;
  const float t = device::FastDivide(1.0f, 1.0f + 0.44f * z);
  const float p = 0.124280276f +
                  t * (0.121287108f + t * (0.131784208f + t * (0.020382011f + t * (0.175311750f + t * -0.073047918f))));
  const float tail = t * p * device::FastExp(-z * z);
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
