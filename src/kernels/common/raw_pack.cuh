// Packs as 32-bit words, for code that keeps them in registers or shared memory before use: a struct of 16-bit members
// would be moved member by member and take a register for each. Whole words are also what 16-bit floats are converted
// by: a pair needs one instruction more than a single one would, and none to take it apart.
#pragma once

#include <bit>
#include <cstring>
#include <type_traits>

#include "device/launch.h"
#include "kernels/pack.h"

namespace cudaep::kernels {

template <size_t kBytes>
struct alignas(kBytes) PackWords {
  uint32_t word[kBytes / 4];
};

template <class T, int N>
using RawPack = std::conditional_t<sizeof(T) * N % 4 == 0, PackWords<sizeof(T) * N>, Pack<T, N>>;

// One instruction on a device; a host compiler may assume that words and elements are different objects, so it copies.
template <int N, class T>
CUDAEP_HOST_DEVICE RawPack<T, N> LoadRaw(const T* pointer) {
#if defined(__CUDA_ARCH__)
  return *reinterpret_cast<const RawPack<T, N>*>(pointer);
#else
  RawPack<T, N> raw;
  std::memcpy(&raw, pointer, sizeof(raw));
  return raw;
#endif
}

template <int N, class T>
CUDAEP_HOST_DEVICE void StoreRaw(T* pointer, const Pack<T, N>& pack) {
#if defined(__CUDA_ARCH__)
  *reinterpret_cast<RawPack<T, N>*>(pointer) = std::bit_cast<RawPack<T, N>>(pack);
#else
  std::memcpy(pointer, &pack, sizeof(pack));
#endif
}

template <int N, class T>
CUDAEP_HOST_DEVICE void StoreWords(T* pointer, const RawPack<T, N>& raw) {
#if defined(__CUDA_ARCH__)
  *reinterpret_cast<RawPack<T, N>*>(pointer) = raw;
#else
  std::memcpy(pointer, &raw, sizeof(raw));
#endif
}

template <class T, int N>
CUDAEP_HOST_DEVICE Pack<T, N> Unpack(const RawPack<T, N>& raw) {
  return std::bit_cast<Pack<T, N>>(raw);
}

namespace detail {

// Two elements from one word and back.
template <class T>
CUDAEP_HOST_DEVICE void UnpackPair(uint32_t word, float* value) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, Half>) {
    const float2 pair = __half22float2(reinterpret_cast<const __half2&>(word));
    value[0] = pair.x;
    value[1] = pair.y;
    return;
  }
#endif
  value[0] = ToFloat(T{static_cast<uint16_t>(word)});
  value[1] = ToFloat(T{static_cast<uint16_t>(word >> 16)});
}
template <class T>
CUDAEP_HOST_DEVICE uint32_t PackPair(const float* value) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, Half>) {
    const __half2 pair = __floats2half2_rn(value[0], value[1]);
    return reinterpret_cast<const uint32_t&>(pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(value[0], value[1]);
    return reinterpret_cast<const uint32_t&>(pair);
  }
#else
  return Store<T>(value[0]).bits | static_cast<uint32_t>(Store<T>(value[1]).bits) << 16;
#endif
}

template <class T, int N>
inline constexpr bool kPairs = (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)&&N % 2 == 0;

}  // namespace detail

// Makes the compiler forget what it knows of the words, lest it keeps their elements in registers of their own.
template <int kPacks, size_t kBytes>
__device__ __forceinline__ void KeepPacked([[maybe_unused]] PackWords<kBytes> (&raw)[kPacks]) {
#if defined(__CUDA_ARCH__)
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
#pragma unroll
    for (uint32_t& word : raw[i].word) asm volatile("" : "+r"(word));
  }
#endif
}
template <int kPacks, class T, int N>
__device__ __forceinline__ void KeepPacked(Pack<T, N> (&)[kPacks]) {}

// The elements of a pack in their compute type.
template <class T, int N>
CUDAEP_HOST_DEVICE void UnpackCompute(const RawPack<T, N>& raw, ComputeType<T>* value) {
  if constexpr (detail::kPairs<T, N>) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) detail::UnpackPair<T>(raw.word[i], value + 2 * i);
  } else {
    const Pack<T, N> pack = Unpack<T, N>(raw);
#pragma unroll
    for (int k = 0; k < N; ++k) value[k] = Load(pack.value[k]);
  }
}

// Rounds computed values to a pack of T.
template <class T, int N>
CUDAEP_HOST_DEVICE RawPack<T, N> PackCompute(const ComputeType<T>* value) {
  if constexpr (detail::kPairs<T, N>) {
    RawPack<T, N> raw;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) raw.word[i] = detail::PackPair<T>(value + 2 * i);
    return raw;
  } else {
    Pack<T, N> pack;
#pragma unroll
    for (int k = 0; k < N; ++k) pack.value[k] = Store<T>(value[k]);
    return std::bit_cast<RawPack<T, N>>(pack);
  }
}

}  // namespace cudaep::kernels
