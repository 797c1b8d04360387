// 8-bit codes into numbers and back, as code_rounding.h says. Words are flipped already: each byte is how far its code
// lies above the lowest.
#pragma once

#include <bit>

#include "device/launch.h"
#include "device/rounded.h"
#include "kernels/quant/code_rounding.h"

namespace cudaep::kernels {

// The numbers from 2^23 on have whole ones for their last bits, so that a byte needs no conversion to become a float,
// of which a multiprocessor makes few at a time.
inline constexpr float kFloatOfBytes = 0x1p23f;
inline constexpr uint32_t kBitsOfBytes = 0x4b000000;
// Added to a number it leaves the nearest whole one in the sum's last bits, ties to even; taken off again, that number.
// Its own lowest byte is 0.
inline constexpr float kWholeNumbers = 0x1.8p23f;

// code - zero.
__device__ __forceinline__ float AboveZero(const CodeCoding& coding, uint32_t word, int index) {
  const float middle = kFloatOfBytes + static_cast<float>(coding.above_lowest);
#if defined(__CUDA_ARCH__)
  const uint32_t bits = __byte_perm(word, kBitsOfBytes, 0x7650u | static_cast<unsigned>(index));
#else
  const uint32_t bits = (word >> (8 * index) & 0xffu) | kBitsOfBytes;
#endif
  return std::bit_cast<float>(bits) - middle;
}

// What a code stands for, rounded before anything is added to it.
__device__ __forceinline__ float NumberOf(const CodeCoding& coding, uint32_t word, int index) {
  return device::RoundedProduct(AboveZero(coding, word, index), coding.scale);
}

// code - zero of a number before it is rounded. By the reciprocal, where there is one, or for every scale.
template <bool kDivides>
__device__ __forceinline__ float UnroundedCode(const CodeRounding& to, float number) {
  if constexpr (kDivides) {
    const float least = -static_cast<float>(to.coding.above_lowest);
    return fminf(fmaxf(number / to.coding.scale, least), least + 255.0f);
  } else {
    return to.reciprocal.Quotient(fminf(fmaxf(number, to.least), to.most));
  }
}

// The same rounded.
__device__ __forceinline__ float WholeCode(float unrounded) { return unrounded + kWholeNumbers - kWholeNumbers; }

// How far the code lies above the lowest.
__device__ __forceinline__ uint32_t AboveLowest(const CodeRounding& to, float unrounded) {
  return std::bit_cast<uint32_t>(unrounded + kWholeNumbers) - std::bit_cast<uint32_t>(kWholeNumbers) +
         static_cast<uint32_t>(to.coding.above_lowest);
}
template <bool kDivides>
__device__ __forceinline__ uint32_t ByteOf(const CodeRounding& to, float number) {
  return AboveLowest(to, UnroundedCode<kDivides>(to, number));
}

}  // namespace cudaep::kernels
