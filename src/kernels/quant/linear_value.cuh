// Single values of linear quantization.
#pragma once

#include <limits>

#include "kernels/common/narrow.cuh"
#include "kernels/elementwise/conversion.cuh"
#include "kernels/quant/linear.cuh"

namespace cudaep::kernels {

template <DataType type>
__device__ __forceinline__ constexpr std::pair<float, float> RangeOf() {
  if constexpr (kNarrowInts.Contains(type)) {
    constexpr bool kSigned = type == DataType::kInt4 || type == DataType::kInt2;
    constexpr int kBits = kBitsOf<type>;
    return {kSigned ? -(1 << (kBits - 1)) : 0, (1 << (kSigned ? kBits - 1 : kBits)) - 1};
  } else {
    return {std::numeric_limits<CppType<type>>::min(), std::numeric_limits<CppType<type>>::max()};
  }
}

__device__ __forceinline__ float AsFloat(float x) { return x; }
__device__ __forceinline__ float AsFloat(double x) { return RoundToOdd(x); }

// The integer of an integer type, the code of a float.
template <DataType type, class Wide, class Zero>
__device__ __forceinline__ auto Quantized(Wide quotient, Zero zero, bool saturate) {
  if constexpr (kQuantInts.Contains(type)) {
    // What saturates is cut off before the zero point is added; in this order NaN becomes the lowest. A fp32 between
    // 2^23 and 2^24 has its integer, rounded to nearest, in its last bits.
    constexpr float kMiddle = 0x1.8p23f;
    const auto [lowest, highest] = RangeOf<type>();
    const Wide low = static_cast<Wide>(lowest - static_cast<float>(zero));
    const Wide high = static_cast<Wide>(highest - static_cast<float>(zero));
    Wide cut = std::fmin(std::fmax(quotient, low), high);
    if constexpr (std::is_same_v<Wide, double>) cut = rint(cut);
    return std::bit_cast<int32_t>(static_cast<float>(cut) + kMiddle) + (zero - std::bit_cast<int32_t>(kMiddle));
  } else {
    if (zero != 0) quotient += zero;
    return NarrowFormat<type>::Type::Encode(AsFloat(quotient), saturate);
  }
}

// Quotients by one scale, without the tests and branches of a division.
//
// Source of the steps: P. Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", IBM
// Journal of Research and Development 34, 1990: two corrections by the exact remainder round correctly where nothing
// underflows, which scales in InRange() guarantee for quotients that are not rounded to zero afterwards. Of operands
// with at most 11 bits one is enough: such a quotient is a fp32, or at least 2^-12 ulp away from where rounding
// changes, and the correction's error is below 2^-20 ulp.
template <bool kShort>
struct QuickDivider {
  static constexpr float kNear = 0x1p20f;
  float scale, inverse;

  QuickDivider() = default;

  static __device__ __forceinline__ bool InRange(float scale) {
    return std::fabs(scale) >= 0x1p-60f && std::fabs(scale) <= 0x1p60f;
  }
  __device__ __forceinline__ explicit QuickDivider(float by) : scale(by) {
#if defined(__CUDA_ARCH__)
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(by));
#else
    inverse = 1.0f / by;
#endif
    inverse = fmaf(fmaf(-inverse, scale, 1.0f), inverse, inverse);
  }
  __device__ __forceinline__ float operator()(float x) const {
    float magnitude = 0;
    const float first = x * inverse, quotient = Near(x, magnitude);
    // What saturates anyway may be infinite, whose remainder is no number. A zero keeps its sign.
    return std::fabs(first) < kNear ? std::copysign(quotient, first) : first;
  }
  // The same where it is below kNear but for the sign of a zero; `largest` becomes no less than its magnitude.
  __device__ __forceinline__ float Near(float x, float& largest) const {
    const float first = x * inverse;
    largest = std::fmax(largest, std::fabs(first));
    float quotient = fmaf(fmaf(-first, scale, x), inverse, first);
    if constexpr (!kShort) quotient = fmaf(fmaf(-quotient, scale, x), inverse, quotient);
    return quotient;
  }
};

// Of integers of at most 16 bits: they fit the last bits of a fp32 between 2^23 and 2^24, so that no conversion is
// needed, of which a multiprocessor makes few at a time.
__device__ __forceinline__ float SmallDifference(int32_t x, int32_t zero) {
  constexpr float kMiddle = 0x1.8p23f;
  return std::bit_cast<float>(x - zero + std::bit_cast<int32_t>(kMiddle)) - kMiddle;
}

}  // namespace cudaep::kernels
