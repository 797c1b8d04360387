// Halves and bytes of words, and words of neighbouring lanes, moved in few instructions.
#pragma once

#include "device/intrinsics.h"
#include "device/launch.h"

namespace cudaep::device {

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

// The lowest bytes of four words, the first one lowest.
__device__ __forceinline__ uint32_t JoinBytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
#else
  return (a & 0xff) | (b & 0xff) << 8 | (c & 0xff) << 16 | d << 24;
#endif
}

// Two whole numbers as bytes, each kept within [0, 255], and the low half of `upper` above them.
__device__ __forceinline__ uint32_t JoinWithinBytes(int32_t a, int32_t b, uint32_t upper = 0) {
#if defined(__CUDA_ARCH__)
  uint32_t result;
  asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(b), "r"(a), "r"(upper));
  return result;
#else
  const auto byte = [](int32_t number) { return static_cast<uint32_t>(number < 0 ? 0 : number > 255 ? 255 : number); };
  return byte(a) | byte(b) << 8 | upper << 16;
#endif
}
__device__ __forceinline__ uint32_t JoinWithinBytes(int32_t a, int32_t b, int32_t c, int32_t d) {
  return JoinWithinBytes(a, b, JoinWithinBytes(c, d));
}

// The larger of both halves of two words, with signs.
__device__ __forceinline__ uint32_t MaxOfHalves(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__)
  return __vmaxs2(a, b);
#else
  const auto larger = [](uint32_t x, uint32_t y) {
    const auto first = static_cast<int16_t>(x), second = static_cast<int16_t>(y);
    return static_cast<uint32_t>(static_cast<uint16_t>(first > second ? first : second));
  };
  return larger(a, b) | larger(a >> 16, b >> 16) << 16;
#endif
}

// The sum of a word's bytes, with signs or without, at which `ones` has a 1 and not 0.
template <bool kSigned>
__device__ __forceinline__ int32_t SumOfBytes(uint32_t word, uint32_t ones) {
#if defined(__CUDA_ARCH__)
  if constexpr (kSigned) {
    return __dp4a(static_cast<int>(word), static_cast<int>(ones), 0);
  } else {
    return static_cast<int32_t>(__dp4a(word, ones, 0u));
  }
#else
  int32_t sum = 0;
  for (int byte = 0; byte < 4; ++byte) {
    const auto code = static_cast<uint8_t>(word >> (8 * byte));
    if ((ones >> (8 * byte) & 1) != 0) sum += kSigned ? int32_t{static_cast<int8_t>(code)} : int32_t{code};
  }
  return sum;
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

}  // namespace cudaep::device
