// Packs as 32-bit words, for code that keeps them in registers or shared memory before use: a struct of 16-bit members
// would be moved member by member and take a register for each.
#pragma once

#include <bit>
#include <type_traits>

#include "kernels/pack.h"

namespace cudaep::kernels {

template <size_t kBytes>
struct __attribute__((may_alias)) alignas(kBytes) PackWords {
  uint32_t word[kBytes / 4];
};

template <class T, int N>
using RawPack = std::conditional_t<sizeof(T) * N % 4 == 0, PackWords<sizeof(T) * N>, Pack<T, N>>;

template <int N, class T>
CUDAEP_HOST_DEVICE RawPack<T, N> LoadRaw(const T* pointer) {
  return *reinterpret_cast<const RawPack<T, N>*>(pointer);
}

template <int N, class T>
CUDAEP_HOST_DEVICE void StoreRaw(T* pointer, const Pack<T, N>& pack) {
  *reinterpret_cast<RawPack<T, N>*>(pointer) = std::bit_cast<RawPack<T, N>>(pack);
}

template <class T, int N>
CUDAEP_HOST_DEVICE Pack<T, N> Unpack(const RawPack<T, N>& raw) {
  return std::bit_cast<Pack<T, N>>(raw);
}

}  // namespace cudaep::kernels
