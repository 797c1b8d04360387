// 16-bit floating point storage types for host and device code.
//
// Half is IEEE binary16, BFloat16 the upper half of binary32. They store bits and convert; arithmetic is done in
// fp32 (house rule), so neither type has operators. Conversions to 16 bits round to nearest even, NaN stays NaN,
// overflow becomes infinity. The same source compiles under nvcc and under a host compiler without the toolkit.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define CUDAEP_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define CUDAEP_HOST_DEVICE inline
#endif

namespace cudaep {

struct Half {
  uint16_t bits;
};

struct BFloat16 {
  uint16_t bits;
};

namespace detail {

inline float HalfBitsToFloat(uint16_t h) {
#if defined(__F16C__) && !defined(__CUDACC__)
  return std::bit_cast<_Float16>(h);
#else
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t magnitude = h & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
  // Subnormal: magnitude * 2^-24 is exact in fp32.
  const float value = static_cast<float>(magnitude) * 5.9604644775390625e-8f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
#endif
}

inline uint16_t FloatToHalfBits(float value) {
#if defined(__F16C__) && !defined(__CUDACC__)
  return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
#else
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;   // NaN
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // rounds past 65504
  if (magnitude < 0x38800000u) {                        // subnormal or zero: add 0.5, whose ulp is 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - 0x3f000000u);
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u;
  return sign | static_cast<uint16_t>(rounded >> 13);
#endif
}

}  // namespace detail

CUDAEP_HOST_DEVICE float ToFloat(Half value) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(value.bits));
#else
  return detail::HalfBitsToFloat(value.bits);
#endif
}

CUDAEP_HOST_DEVICE float ToFloat(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

CUDAEP_HOST_DEVICE Half HalfFromFloat(float value) {
#if defined(__CUDA_ARCH__)
  return Half{__half_as_ushort(__float2half_rn(value))};
#else
  return Half{detail::FloatToHalfBits(value)};
#endif
}

CUDAEP_HOST_DEVICE BFloat16 BFloat16FromFloat(float value) {
#if defined(__CUDA_ARCH__)
  return BFloat16{__bfloat16_as_ushort(__float2bfloat16_rn(value))};
#else
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return BFloat16{static_cast<uint16_t>((bits >> 16) | 0x0040u)};
  return BFloat16{static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
#endif
}

// The type arithmetic on T is done in: fp32 for 16-bit floats, T itself otherwise.
template <class T>
using ComputeType = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

template <class T>
CUDAEP_HOST_DEVICE ComputeType<T> Load(T value) {
  if constexpr (std::is_same_v<T, ComputeType<T>>) {
    return value;
  } else {
    return ToFloat(value);
  }
}

// Rounds a computed value to the storage type T.
template <class T>
CUDAEP_HOST_DEVICE T Store(ComputeType<T> value) {
  if constexpr (std::is_same_v<T, Half>) {
    return HalfFromFloat(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return BFloat16FromFloat(value);
  } else {
    return value;
  }
}

}  // namespace cudaep
