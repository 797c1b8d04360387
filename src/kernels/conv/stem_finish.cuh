// From the stem's sums to its result: numbers of the image's type, or codes. A pack of one pixel stays in registers, in
// words, where maxima are taken of it.
#pragma once

#include "device/pairs.h"
#include "device/words.h"
#include "kernels/conv/stem_image.cuh"
#include "kernels/epilogue/activate.cuh"

namespace cudaep::kernels::stem {

struct alignas(kPackBytes) Result {
  static constexpr int kWords = kStemPack / 2;
  uint32_t word[kWords];
};

// A lane's channels from `at` on, or zeros.
template <class T>
__device__ __forceinline__ void LoadChannels(float (&to)[kStemPack], const void* from, int channel, bool has) {
#pragma unroll
  for (int i = 0; i < kStemPack; ++i) to[i] = has ? Load(static_cast<const T*>(from)[channel + i]) : 0.0f;
}

// activation(sum), rounded; the bias is what sums begin with. kClips: bounds on either side, of rounded pairs, which
// are in the same order as their sums.
template <class T, bool kClips>
struct Numbers {
  using Image = T;
  using Element = T;
  static constexpr bool kFinite = false;  // all that an image may hold

  float bias[kStemPack];
  uint32_t least, most;  // twice

  __device__ __forceinline__ void Load(const Arguments& p, int channel, bool exists) {
    LoadChannels<T>(bias, p.at.bias, channel, exists && p.at.bias != nullptr);
    const ActivationParameters bounds = p.conv.parameters;
    least = device::PairOf<T>(bounds.a, bounds.a), most = device::PairOf<T>(bounds.b, bounds.b);
  }
  __device__ __forceinline__ float Start(int i) const { return bias[i]; }

  __device__ __forceinline__ Result Finish(const Arguments& p, const float (&sum)[kStemPack]) const {
    float number[kStemPack];
#pragma unroll
    for (int i = 0; i < kStemPack; ++i) {
      number[i] = kClips ? sum[i] : ActivateApproximately(p.conv.activation, p.conv.parameters, sum[i]);
    }
    auto result = std::bit_cast<Result>(PackCompute<T, kStemPack>(number));
    if constexpr (kClips) {
#pragma unroll
      for (uint32_t& pair : result.word) {
        pair = device::MinOrNanOfPairs<T>(device::MaxOrNanOfPairs<T>(pair, least), most);
      }
    }
    return result;
  }
  static __device__ __forceinline__ uint32_t Largest(uint32_t a, uint32_t b) {
    return device::MaxOrNanOfPairs<T>(a, b);
  }
  static __device__ __forceinline__ uint32_t Nothing(const Arguments&) {  // two minus infinities
    return std::is_same_v<T, Half> ? 0xfc00fc00u : 0xff80ff80u;
  }

  static __device__ __forceinline__ void StoreResult(const Arguments& p, T* to, const Result& result) {
    const auto raw = std::bit_cast<RawPack<T, kStemPack>>(result);
    if (p.y_in_packs) return StoreWords<kStemPack>(to, raw);
    const Pack<T, kStemPack> elements = Unpack<T, kStemPack>(raw);
#pragma unroll
    for (int i = 0; i < kStemPack; ++i) to[i] = elements.value[i];
  }
};

// What becomes the code of sum * scale + bias, in words as two whole numbers of 16 bits.
struct Codes {
  using Image = int8_t;
  using Element = uint8_t;
  static constexpr bool kFinite = true;

  float factor[kStemPack], bias[kStemPack];  // as Quantizer::RaisedOf says

  __device__ __forceinline__ void Load(const Arguments& p, int channel, bool exists) {
    LoadChannels<float>(factor, p.at.scale, channel, exists);
    LoadChannels<float>(bias, p.at.bias, channel, exists && p.at.bias != nullptr);
#pragma unroll
    for (int i = 0; i < kStemPack; ++i) {
      factor[i] = p.y.FactorOf(factor[i]), bias[i] = p.y.StartOf(bias[i]);
    }
  }
  __device__ __forceinline__ float Start(int) const { return 0.0f; }

  __device__ __forceinline__ Result Finish(const Arguments& p, const float (&sum)[kStemPack]) const {
    Result result;
#pragma unroll
    for (int n = 0; n < Result::kWords; ++n) {
      const auto raised = [&](int i) { return static_cast<uint32_t>(p.y.RaisedOf(sum[i], factor[i], bias[i])); };
      result.word[n] = device::JoinHalves<false>(raised(2 * n), raised(2 * n + 1));
    }
    return result;
  }
  static __device__ __forceinline__ uint32_t Largest(uint32_t a, uint32_t b) { return device::MaxOfHalves(a, b); }
  static __device__ __forceinline__ uint32_t Nothing(const Arguments& p) {
    return static_cast<uint32_t>(p.y.bytes.Raised(p.y.range.lowest)) * 0x10001u;
  }

  static __device__ __forceinline__ void StoreResult(const Arguments& p, uint8_t* to, const Result& result) {
    Pack<uint32_t, 2> codes;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const auto half = [&](int i) {
        return static_cast<int32_t>(result.word[2 * n + i / 2] >> (16 * (i % 2)) & 0xffffu);
      };
      codes.value[n] = p.y.bytes.Join(half(0), half(1), half(2), half(3));
    }
    if (p.y_in_packs) return StorePack(reinterpret_cast<uint32_t*>(to), codes);
#pragma unroll
    for (int i = 0; i < kStemPack; ++i) to[i] = static_cast<uint8_t>(codes.value[i / 4] >> (i % 4 * 8));
  }
};

}  // namespace cudaep::kernels::stem
