// Packs as 32-bit words, for code that keeps them in registers or shared memory before use: a struct of 16-bit members
// would be moved member by member and take a register for each.
#pragma once

#include <bit>
#include <cstring>
#include <type_traits>

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

template <class T, int N>
CUDAEP_HOST_DEVICE Pack<T, N> Unpack(const RawPack<T, N>& raw) {
  return std::bit_cast<Pack<T, N>>(raw);
}

}  // namespace cudaep::kernels
