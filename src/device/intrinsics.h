// Device functions of kernel code in both builds; included through device/launch.h.
//
// Under their CUDA names: __syncthreads (and _count, _or, _and), __syncwarp, __shfl_*_sync, __ballot_sync, __any_sync,
// __all_sync, __activemask, atomicAdd/Sub/Min/Max/And/Or/Xor/Exch/CAS, __ldg, rsqrtf, __popc, __clz, __ffs, bit casts,
// __threadfence. Below are the project's own: what CUDA spells in a way that the host's C library claims for itself,
// and what needs a host meaning. Asynchronous copies are in device/async_copy.h, matrix products in
// device/tensor_core.h.
#pragma once

#include "core/float16.h"
#include "device/launch.h"

#if defined(CUDAEP_SIMULATED_DEVICE)
#include "device/sim/warp_language.h"
#endif

namespace cudaep::device {

inline constexpr unsigned kFullWarp = 0xffffffffu;

// What device code is compiled for: 100 * major + 10 * minor, 0 in the host's part of a CUDA build. The simulated
// device does what 9.0 does.
#if defined(CUDAEP_SIMULATED_DEVICE)
inline constexpr int kTargetArch = 900;
#elif defined(__CUDA_ARCH__)
inline constexpr int kTargetArch = __CUDA_ARCH__;
#else
inline constexpr int kTargetArch = 0;
#endif

// ---- Fast math: a few ulp in fp32, never for values that feed an index ------------------------------------------

__device__ __forceinline__ float FastExp(float x) {
#if defined(__CUDA_ARCH__)
  return __expf(x);
#else
  return std::exp(x);
#endif
}
__device__ __forceinline__ float FastLog(float x) {
#if defined(__CUDA_ARCH__)
  return __logf(x);
#else
  return std::log(x);
#endif
}
__device__ __forceinline__ float FastDivide(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdividef(a, b);
#else
  return a / b;
#endif
}
__device__ __forceinline__ float FastTanh(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return std::tanh(x);
#endif
}

// 2^x. What is below the smallest normal number becomes zero, which saves the instructions that exp2f spends on it.
__device__ __forceinline__ float FastExp2(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return x < -126.0f ? 0.0f : std::exp2(x);
#endif
}

// ---- Selection, unqualified min and max being nvcc's alone ------------------------------------------------------

template <class T>
__host__ __device__ __forceinline__ constexpr T Min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
__host__ __device__ __forceinline__ constexpr T Max(T a, T b) {
  return a < b ? b : a;
}

// The larger numbers of two pairs of 16-bit floats of type T, a pair in a word; NaN loses. 8.0 and later.
template <class T>
__device__ __forceinline__ uint32_t MaxOfPairs(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t result;
  if constexpr (std::is_same_v<T, Half>) {
    asm("max.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("max.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
#else
  const auto larger = [](uint32_t x, uint32_t y) {
    const float max = fmaxf(ToFloat(T{static_cast<uint16_t>(x)}), ToFloat(T{static_cast<uint16_t>(y)}));
    return static_cast<uint32_t>(Store<T>(max).bits);
  };
  return larger(a, b) | larger(a >> 16, b >> 16) << 16;
#endif
}

// ---- Warp reductions: every lane of the warp takes part and gets the result --------------------------------------

template <class T, class Op>
__device__ __forceinline__ T WarpReduce(T value, Op op) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value = op(value, __shfl_xor_sync(kFullWarp, value, offset));
  return value;
}

// ---- Programmatic dependent launch ------------------------------------------------------------------------------

// Returns when the kernels this one depends on have finished and their writes are visible. A kernel launched with
// LaunchConfig::programmatic calls it before it touches memory that is not constant and before it ends.
__device__ __forceinline__ void GridDependencyWait() {
#if defined(CUDAEP_SIMULATED_DEVICE)
  sim::BlockExecutor::Get().WaitForDependency();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Lets the dependent kernel's blocks be scheduled; what this kernel writes afterwards is still waited for.
__device__ __forceinline__ void TriggerDependents() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace cudaep::device
