// Two 16-bit floats of type T in a word, as one instruction takes them. 8.0 and later; MaxOfPairs, where NaN loses, is
// beside the reductions that want it (intrinsics.h).
#pragma once

#include <cmath>

#include "device/intrinsics.h"
#include "device/launch.h"

namespace cudaep::device {

// Both rounded once.
template <class T>
__device__ __forceinline__ uint32_t PairOf(float low, float high) {
  return Store<T>(low).bits | static_cast<uint32_t>(Store<T>(high).bits) << 16;
}

// The low halves of two words, `a` in the low half; kHigh: their high halves.
template <bool kHigh>
__device__ __forceinline__ uint32_t JoinHalves(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__)
  uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "n"(kHigh ? 0x7632 : 0x5410));
  return result;
#else
  return kHigh ? a >> 16 | (b & 0xffff0000u) : (a & 0xffffu) | b << 16;
#endif
}

// Four words of each of four neighbouring lanes: word i of lane t becomes word t of lane i.
__device__ __forceinline__ void TransposeQuad(uint32_t (&word)[4], int t) {
#pragma unroll
  for (int bit = 1; bit < 4; bit *= 2) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int low = bit == 1 ? 2 * i : i, high = low + bit;
      const bool upper = (t & bit) != 0;
      const uint32_t other = __shfl_xor_sync(kFullWarp, upper ? word[low] : word[high], bit);
      if (upper) {
        word[low] = other;
      } else {
        word[high] = other;
      }
    }
  }
}

// Byte `index` of a word in the low bits of both halves.
__device__ __forceinline__ uint32_t TwiceByte(uint32_t word, int index) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(word, 0, 0x4040u | static_cast<unsigned>(index) * 0x101u);
#else
  return (word >> (8 * index) & 0xffu) * 0x10001u;
#endif
}

// word & mask | bits, which the compiler makes two instructions of where both are constants.
__device__ __forceinline__ uint32_t AndOr(uint32_t word, uint32_t mask, uint32_t bits) {
#if defined(__CUDA_ARCH__)
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(word), "r"(mask), "r"(bits));
  return result;
#else
  return (word & mask) | bits;
#endif
}

// The larger numbers of two pairs; NaN wins.
template <class T>
__device__ __forceinline__ uint32_t MaxOrNanOfPairs(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t result;
  if constexpr (std::is_same_v<T, Half>) {
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
#else
  const auto larger = [](uint32_t x, uint32_t y) {
    const float first = ToFloat(T{static_cast<uint16_t>(x)}), second = ToFloat(T{static_cast<uint16_t>(y)});
    const bool take_first = first != first || first > second;
    return take_first ? x & 0xffffu : y & 0xffffu;
  };
  return larger(a, b) | larger(a >> 16, b >> 16) << 16;
#endif
}

// a * b + c of two pairs, each rounded once; elsewhere than on a GPU rounded to fp32 in between.
template <class T>
__device__ __forceinline__ uint32_t FmaOfPairs(uint32_t a, uint32_t b, uint32_t c) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t result;
  if constexpr (std::is_same_v<T, Half>) {
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  } else {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  }
  return result;
#else
  const auto fma = [](uint32_t x, uint32_t y, uint32_t z) {
    const float sum = std::fma(ToFloat(T{static_cast<uint16_t>(x)}), ToFloat(T{static_cast<uint16_t>(y)}),
                               ToFloat(T{static_cast<uint16_t>(z)}));
    return static_cast<uint32_t>(Store<T>(sum).bits);
  };
  return fma(a, b, c) | fma(a >> 16, b >> 16, c >> 16) << 16;
#endif
}

}  // namespace cudaep::device
