// Conversion of one element between any two of float, double, fp16, bf16, integers and bool, as ONNX Cast defines it.
//
// Where ONNX leaves the result open, both devices agree: floats beyond an integer's range saturate and NaN becomes 0.
// Integers wrap when narrowed; everything but zero is true.
#pragma once

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/float16.h"
#include "device/launch.h"

namespace cudaep::kernels {

// The fp32 that a further rounding to 16 bits takes to where x itself would go: inexact results get an odd last bit.
// Source: S. Boldo, G. Melquiond, "Emulation of a FMA and correctly rounded sums", IEEE Trans. Computers 57, 2008.
__device__ __forceinline__ float RoundToOdd(double x) {
  const float nearest = static_cast<float>(x);
  const double back = static_cast<double>(nearest);
  if (back == x || x != x) return nearest;
  const uint32_t bits = std::bit_cast<uint32_t>(nearest);
  return std::bit_cast<float>((std::fabs(back) > std::fabs(x) ? bits - 1 : bits) | 1u);
}

// `From` is a compute type (see core/float16.h), `To` a storage type.
template <class To, class From>
__device__ __forceinline__ To ConvertTo(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (!std::is_same_v<To, ComputeType<To>> && std::is_same_v<From, double>) {
    return Store<To>(RoundToOdd(x));
  } else if constexpr (!std::is_same_v<To, ComputeType<To>>) {
    return Store<To>(static_cast<float>(x));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    // The largest integer may not be a float; its successor, a power of two, always is.
    constexpr From kEnd = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * From(2);
    constexpr From kLowest = static_cast<From>(std::numeric_limits<To>::min());
    if (x >= kEnd) return std::numeric_limits<To>::max();
    if (x > kLowest) return static_cast<To>(x);
    return x == x ? std::numeric_limits<To>::min() : To(0);
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace cudaep::kernels
