// Barriers, warp operations, atomics and small arithmetic of CUDA C++, by their CUDA names, on the host.
//
// Atomics are plain read-modify-writes: device threads of a process share one OS thread.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "device/sim/block_executor.h"

// ---- Barriers and fences ----------------------------------------------------------------------------------------

inline void __syncthreads() { cudaep::device::sim::BlockExecutor::Get().SyncBlock(); }
inline int __syncthreads_count(int predicate) {
  return cudaep::device::sim::BlockExecutor::Get().SyncBlockCount(predicate != 0);
}
inline int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) != 0; }
inline int __syncthreads_and(int predicate) { return __syncthreads_count(predicate == 0) == 0; }
inline void __syncwarp(unsigned mask = 0xffffffffu) { cudaep::device::sim::BlockExecutor::Get().SyncWarp(mask); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
[[noreturn]] inline void __trap() { cudaep::device::sim::BlockExecutor::Get().Fail("the kernel trapped"); }

// ---- Warp votes and shuffles ------------------------------------------------------------------------------------

inline unsigned __activemask() { return cudaep::device::sim::BlockExecutor::Get().ActiveMask(); }
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return cudaep::device::sim::BlockExecutor::Get().Ballot(mask, predicate != 0);
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate == 0) == 0; }

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  auto& block = cudaep::device::sim::BlockExecutor::Get();
  const unsigned base = block.lane() & ~(static_cast<unsigned>(width) - 1);
  return block.Shuffle(mask, value, base + (static_cast<unsigned>(source) & (static_cast<unsigned>(width) - 1)));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  auto& block = cudaep::device::sim::BlockExecutor::Get();
  const unsigned lane = block.lane(), source = lane ^ static_cast<unsigned>(lane_mask);
  const unsigned end = (lane & ~(static_cast<unsigned>(width) - 1)) + static_cast<unsigned>(width);
  return block.Shuffle(mask, value, source < end ? source : lane);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  auto& block = cudaep::device::sim::BlockExecutor::Get();
  const unsigned lane = block.lane(), within = lane & (static_cast<unsigned>(width) - 1);
  return block.Shuffle(mask, value, within + delta < static_cast<unsigned>(width) ? lane + delta : lane);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  auto& block = cudaep::device::sim::BlockExecutor::Get();
  const unsigned lane = block.lane(), within = lane & (static_cast<unsigned>(width) - 1);
  return block.Shuffle(mask, value, within >= delta ? lane - delta : lane);
}

// ---- Atomics ----------------------------------------------------------------------------------------------------

namespace cudaep::device::sim {
// Device threads race on purpose in atomics; TSan is told so by making the access atomic to it.
template <class T, class F>
T AtomicUpdate(T* address, F update) {
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
  static_assert(sizeof(T) == sizeof(Bits));
  auto* bits = reinterpret_cast<Bits*>(address);
  const T old = std::bit_cast<T>(__atomic_load_n(bits, __ATOMIC_RELAXED));
  __atomic_store_n(bits, std::bit_cast<Bits>(static_cast<T>(update(old))), __ATOMIC_RELAXED);
  return old;
}
}  // namespace cudaep::device::sim

template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return cudaep::device::sim::AtomicUpdate(address, [value](T old) { return static_cast<T>(old + value); });
}
template <class T>
T atomicSub(T* address, std::type_identity_t<T> value) {
  return cudaep::device::sim::AtomicUpdate(address, [value](T old) { return static_cast<T>(old - value); });
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return cudaep::device::sim::AtomicUpdate(address, [value](T old) { return old < value ? value : old; });
}
template <class T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return cudaep::device::sim::AtomicUpdate(address, [value](T old) { return value < old ? value : old; });
}
template <class T>
T atomicAnd(T* address, std::type_identity_t<T> value) {
  return cudaep::device::sim::AtomicUpdate(address, [value](T old) { return old & value; });
}
template <class T>
T atomicOr(T* address, std::type_identity_t<T> value) {
  return cudaep::device::sim::AtomicUpdate(address, [value](T old) { return old | value; });
}
template <class T>
T atomicXor(T* address, std::type_identity_t<T> value) {
  return cudaep::device::sim::AtomicUpdate(address, [value](T old) { return old ^ value; });
}
template <class T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return cudaep::device::sim::AtomicUpdate(address, [value](T) { return value; });
}
template <class T>
T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  return cudaep::device::sim::AtomicUpdate(address, [=](T old) { return old == compare ? value : old; });
}

// ---- Loads, bits and arithmetic that the host's C library lacks -------------------------------------------------

template <class T>
__forceinline__ T __ldg(const T* address) {
  return *address;
}
__forceinline__ float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
__forceinline__ double rsqrt(double x) { return 1.0 / std::sqrt(x); }
__forceinline__ float __fdividef(float a, float b) { return a / b; }
__forceinline__ int __popc(unsigned x) { return std::popcount(x); }
__forceinline__ int __popcll(unsigned long long x) { return std::popcount(x); }
__forceinline__ int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
__forceinline__ int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
__forceinline__ int __ffs(int x) { return x != 0 ? std::countr_zero(static_cast<unsigned>(x)) + 1 : 0; }
__forceinline__ unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(uint64_t{a} * b >> 32); }
__forceinline__ unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
__forceinline__ int __float_as_int(float x) { return std::bit_cast<int>(x); }
__forceinline__ unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
__forceinline__ float __int_as_float(int x) { return std::bit_cast<float>(x); }
__forceinline__ float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
