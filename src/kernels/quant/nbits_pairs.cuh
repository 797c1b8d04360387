// Weights of 2, 4 or 8 bits as pairs of 16-bit floats, the operands of tensor cores.
#pragma once

#include "device/launch.h"
#include "device/pairs.h"
#include "device/words.h"

namespace cudaep::kernels {

// The elements of a word of weights, or as many neighbours of a row of the left matrix: elements i and i + kPairs are
// the i-th pair, as they stand 16 bits apart in a word of weights.
template <int kBits>
inline constexpr int kNBitsPairs = 16 / kBits;

template <int kBits>
struct NBitsPairs {
  uint32_t pair[kNBitsPairs<kBits>];
};

// The zero point of one of four columns, whose bytes those are, in both halves; `bit` is its first one.
template <int kBits>
__device__ __forceinline__ uint32_t ZeroPair(uint32_t bytes, int column, int bit) {
  return device::TwiceByte(bytes, column) >> bit & ((1u << kBits) - 1) * 0x10001u;
}
template <int kBits>
inline constexpr uint32_t kMiddlePair = (1u << (kBits - 1)) * 0x10001u;

// Weights less their zero point, exactly: an integer that is put into the mantissa of 1024 (Half) or 128 (BFloat16) is
// added to it; one that stands `place` bits further up counts 2^place times there, which the product with 2^-place
// undoes.
template <class T, int kBits>
__device__ __forceinline__ NBitsPairs<kBits> WeightPairs(uint32_t word, uint32_t zero_pair) {
  constexpr uint32_t kMask = ((1u << kBits) - 1) * 0x10001u;
  NBitsPairs<kBits> result;
#pragma unroll
  for (int i = 0; i < kNBitsPairs<kBits>; ++i) {
    if constexpr (std::is_same_v<T, Half>) {
      const int place = kBits * i % 8;  // one shift serves the bits of a byte
      const uint32_t exponent = static_cast<uint32_t>(place) << 10;
      const uint32_t bits = device::AndOr(word >> (kBits * i / 8 * 8), kMask << place, 0x64006400u);
      const uint32_t offset = (0xe400u - exponent) * 0x10001u | zero_pair
                                                                    << place;  // -(1024 + zero * 2^place) / 2^place
      result.pair[i] = device::FmaOfPairs<T>(bits, (0x3c00u - exponent) * 0x10001u, offset);
    } else if constexpr (kBits < 8) {
      const uint32_t bits = device::AndOr(word >> (kBits * i), kMask, 0x43004300u);
      result.pair[i] = device::FmaOfPairs<T>(bits, 0x3f803f80u, 0xc300c300u | zero_pair);
    } else {  // a mantissa of BFloat16 has 7 bits
      const auto element = [&](int shift) {
        return Store<T>(static_cast<float>(word >> shift & 0xffu) - static_cast<float>(zero_pair & 0xffu)).bits;
      };
      result.pair[i] = element(8 * i) | static_cast<uint32_t>(element(8 * i + 16)) << 16;
    }
  }
  return result;
}

// The same times a scale, which both halves of `scale` are: rounded once.
template <class T, int kBits>
__device__ __forceinline__ NBitsPairs<kBits> ScaledWeightPairs(uint32_t word, uint32_t zero_pair, uint32_t scale) {
  NBitsPairs<kBits> result = WeightPairs<T, kBits>(word, zero_pair);
#pragma unroll
  for (uint32_t& pair : result.pair) pair = device::FmaOfPairs<T>(pair, scale, 0);
  return result;
}

// Both halves are the same: half `index` of the words.
__device__ __forceinline__ uint32_t Twice(const uint32_t (&words)[2], int index) {
  const uint32_t word = words[index / 2];
  return index % 2 == 0 ? device::JoinHalves<false>(word, word) : device::JoinHalves<true>(word, word);
}

}  // namespace cudaep::kernels
