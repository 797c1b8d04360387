// Numbers of 8 bits and fewer: what their codes mean, and the rounding of fp32 and integers to them.
//
// NarrowFloat covers the floats of 4 and 8 bits with a sign; E8M0 has powers of two alone. Rounding is to nearest, ties
// to even. Every value of these types is an fp32. Sources: the type tables of ONNX Cast; P. Micikevicius et al., "FP8
// Formats for Deep Learning", 2022; OCP Microscaling Formats (MX) 1.0, 2023.
#pragma once

#include <bit>
#include <cstdint>

#include "core/data_type.h"
#include "device/launch.h"
#include "kernels/common/narrow_types.h"

namespace cudaep::kernels {

// `kBits` with the sign, `kLargest` the code of the largest number, `kOverflow` that of what is beyond it and `kNan`,
// without the sign. kOneZero: the code of -0 is the only NaN.
template <int kBits, int kMantissa, int kBias, uint32_t kLargest, uint32_t kOverflow, uint32_t kNan, bool kOneZero>
struct NarrowFloat {
  static constexpr uint32_t kSign = 1u << (kBits - 1);

  static __device__ __forceinline__ float Decode(uint32_t code) {
    const uint32_t magnitude = code & (kSign - 1);
    // As an fp32 with the exponent of a subnormal number it is 2^(127 - bias) times too small.
    const float scale = std::bit_cast<float>(static_cast<uint32_t>(254 - kBias) << 23);
    uint32_t bits = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << (23 - kMantissa)) * scale);
    if constexpr (kOneZero) {
      if (code == kSign) return std::bit_cast<float>(0x7fc00000u);
    } else {
      constexpr bool kInfinity = kOverflow > kLargest && kOverflow != kNan;
      if (magnitude > kLargest) bits = kInfinity && magnitude == kOverflow ? 0x7f800000u : 0x7fc00000u;
    }
    return std::bit_cast<float>(bits | (code & kSign) << (32 - kBits));
  }

  static __device__ __forceinline__ uint32_t Encode(float x, bool saturate) {
    constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(128 - kBias) << 23;
    // Added to a smaller number, it leaves that number's code in the last bits of the sum.
    constexpr uint32_t kAligner = static_cast<uint32_t>(128 - kBias - kMantissa + 23) << 23;
    const uint32_t bits = std::bit_cast<uint32_t>(x), magnitude = bits & 0x7fffffffu;
    const uint32_t sign = bits >> 31 << (kBits - 1);
    uint32_t code;
    if (magnitude < kSmallestNormal) {
      code = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kAligner)) - kAligner;
    } else {
      const uint32_t odd = (magnitude >> (23 - kMantissa)) & 1u;
      code = ((magnitude + (1u << (22 - kMantissa)) - 1 + odd) >> (23 - kMantissa)) - ((127u - kBias) << kMantissa);
    }
    if (code > kLargest) code = saturate ? kLargest : kOverflow;
    if constexpr (kOneZero) {
      if (magnitude > 0x7f800000u || code > kLargest) return kSign;
      return code == 0 ? 0 : code | sign;
    } else {
      if (magnitude > 0x7f800000u) code = kNan;
      return code ^ sign;
    }
  }
};

// The magnitudes from 2^-127 to 2^127, and NaN. Negative numbers, which the standard leaves open, are below them all.
struct E8M0 {
  static __device__ __forceinline__ float Decode(uint32_t code) {
    if (code == 0xff) return std::bit_cast<float>(0x7fc00000u);
    return std::bit_cast<float>(code == 0 ? 0x00400000u : code << 23);
  }

  static __device__ __forceinline__ uint32_t Encode(float x, NarrowRounding rounding) {
    const float smallest = std::bit_cast<float>(0x00400000u), largest = std::bit_cast<float>(0x7f000000u);
    if (x != x) return 0xff;
    if (x < smallest) return rounding.saturate ? 0 : 0xff;
    if (x > largest) return rounding.saturate ? 0xfe : 0xff;
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    uint32_t exponent = bits >> 23, rest = bits & 0x7fffffu;
    if (exponent == 0) rest = 2 * (rest - 0x400000u);  // between 2^-127 and 2^-126
    const uint32_t up = rounding.power == PowerRounding::kUp        ? rest != 0
                        : rounding.power == PowerRounding::kNearest ? rest >= 0x400000u
                                                                    : 0;
    return exponent + up;
  }
};

// Integers of 2 and 4 bits. What does not fit keeps its lowest bits.
template <int kBits, bool kSigned>
struct NarrowInt {
  static constexpr uint32_t kMask = (1u << kBits) - 1;
  static __device__ __forceinline__ int32_t Decode(uint32_t code) {
    return kSigned ? static_cast<int32_t>(code << (32 - kBits)) >> (32 - kBits) : static_cast<int32_t>(code);
  }
  static __device__ __forceinline__ uint32_t Encode(int32_t x) { return static_cast<uint32_t>(x) & kMask; }
};

template <DataType>
struct NarrowFormat;
template <>
struct NarrowFormat<DataType::kFloat8E4M3FN> {
  using Type = NarrowFloat<8, 3, 7, 0x7e, 0x7f, 0x7f, false>;
};
template <>
struct NarrowFormat<DataType::kFloat8E4M3FNUZ> {
  using Type = NarrowFloat<8, 3, 8, 0x7f, 0x80, 0x80, true>;
};
template <>
struct NarrowFormat<DataType::kFloat8E5M2> {
  using Type = NarrowFloat<8, 2, 15, 0x7b, 0x7c, 0x7f, false>;
};
template <>
struct NarrowFormat<DataType::kFloat8E5M2FNUZ> {
  using Type = NarrowFloat<8, 2, 16, 0x7f, 0x80, 0x80, true>;
};
// Has neither infinity nor NaN: overflow saturates, and NaN becomes a zero.
template <>
struct NarrowFormat<DataType::kFloat4E2M1> {
  using Type = NarrowFloat<4, 1, 1, 0x7, 0x7, 0x8, false>;
};
template <>
struct NarrowFormat<DataType::kFloat8E8M0> {
  using Type = E8M0;
};
template <>
struct NarrowFormat<DataType::kUint4> {
  using Type = NarrowInt<4, false>;
};
template <>
struct NarrowFormat<DataType::kInt4> {
  using Type = NarrowInt<4, true>;
};
template <>
struct NarrowFormat<DataType::kUint2> {
  using Type = NarrowInt<2, false>;
};
template <>
struct NarrowFormat<DataType::kInt2> {
  using Type = NarrowInt<2, true>;
};

}  // namespace cudaep::kernels
