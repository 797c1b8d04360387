// The words of random.h, and numbers made of them.
#pragma once

#include <numbers>

#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/generate/random.h"

namespace cudaep::kernels {

struct RandomWords {
  uint32_t value[4];
};

__device__ __forceinline__ RandomWords Philox(const RandomStream& random, uint64_t group) {
  constexpr uint32_t kMultiply0 = 0xD2511F53u, kMultiply1 = 0xCD9E8D57u, kRaise0 = 0x9E3779B9u, kRaise1 = 0xBB67AE85u;
  uint32_t c0 = static_cast<uint32_t>(group), c1 = static_cast<uint32_t>(group >> 32);
  uint32_t c2 = static_cast<uint32_t>(random.call), c3 = static_cast<uint32_t>(random.call >> 32);
  uint32_t k0 = static_cast<uint32_t>(random.key), k1 = static_cast<uint32_t>(random.key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint32_t high0 = __umulhi(kMultiply0, c0), high1 = __umulhi(kMultiply1, c2);
    const uint32_t low0 = kMultiply0 * c0, low1 = kMultiply1 * c2;
    c0 = high1 ^ c1 ^ k0, c1 = low1;
    c2 = high0 ^ c3 ^ k1, c3 = low0;
    k0 += kRaise0, k1 += kRaise1;
  }
  return {{c0, c1, c2, c3}};
}

inline constexpr int kRandomPack = 4;

template <class C>
struct RandomPack {
  C value[kRandomPack];
};

// 53 bits of the words' i-th pair.
__device__ __forceinline__ double PairOf(const RandomWords& words, int i) {
  const uint64_t bits = (static_cast<uint64_t>(words.value[2 * i]) << 32 | words.value[2 * i + 1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

// Four numbers in [0, 1), of 24 bits or 53.
template <class C>
__device__ __forceinline__ RandomPack<C> UniformPack(const RandomStream& random, uint64_t group) {
  RandomPack<C> out;
  if constexpr (std::is_same_v<C, double>) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const RandomWords words = Philox(random, 2 * group + static_cast<uint64_t>(half));
      out.value[2 * half] = PairOf(words, 0), out.value[2 * half + 1] = PairOf(words, 1);
    }
  } else {
    const RandomWords words = Philox(random, group);
#pragma unroll
    for (int i = 0; i < kRandomPack; ++i) out.value[i] = static_cast<float>(words.value[i] >> 8) * 0x1p-24f;
  }
  return out;
}

// Two of the standard normal distribution. `u` in (0, 1]. Source: G. Box, M. Muller, 1958.
template <class C>
__device__ __forceinline__ void BoxMuller(C u, C v, C* first, C* second) {
  const C radius = std::sqrt(C(-2) * std::log(u)), angle = C(2) * std::numbers::pi_v<C> * v;
  *first = radius * std::cos(angle), *second = radius * std::sin(angle);
}

template <class C>
__device__ __forceinline__ RandomPack<C> NormalPack(const RandomStream& random, uint64_t group) {
  RandomPack<C> out;
  if constexpr (std::is_same_v<C, double>) {
    const RandomPack<C> u = UniformPack<C>(random, group);
    BoxMuller(1.0 - u.value[0], u.value[1], &out.value[0], &out.value[1]);
    BoxMuller(1.0 - u.value[2], u.value[3], &out.value[2], &out.value[3]);
  } else {
    const RandomWords words = Philox(random, group);
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      // All 32 bits, for the tails.
      const float u = std::fma(static_cast<float>(words.value[i]), 0x1p-32f, 0x1p-33f);
      const float v = static_cast<float>(words.value[i + 1] >> 8) * 0x1p-24f;
      BoxMuller(u, v, &out.value[i], &out.value[i + 1]);
    }
  }
  return out;
}

}  // namespace cudaep::kernels
