// Aligned groups of elements: what one thread loads or stores with a single instruction of up to 16 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/float16.h"

namespace cudaep::kernels {

inline constexpr int kPackBytes = 16;

// Wider ones (an fp16 pack converted to fp32) are moved in pieces of kPackBytes.
template <class T, int N>
struct alignas(sizeof(T) * N < kPackBytes ? sizeof(T) * N : kPackBytes) Pack {
  T value[N];
};

// Elements a pack holds when `widest_bytes` is the size of the widest type a kernel touches.
constexpr int PackElems(size_t widest_bytes) { return static_cast<int>(kPackBytes / widest_bytes); }

template <int N, class T>
CUDAEP_HOST_DEVICE Pack<T, N> LoadPack(const T* pointer) {
  return *reinterpret_cast<const Pack<T, N>*>(pointer);
}

template <int N, class T>
CUDAEP_HOST_DEVICE void StorePack(T* pointer, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(pointer) = pack;
}

// Whether a pointer may be accessed in packs of `bytes` (a power of two).
inline bool IsAligned(const void* pointer, size_t bytes) { return reinterpret_cast<uintptr_t>(pointer) % bytes == 0; }

}  // namespace cudaep::kernels
