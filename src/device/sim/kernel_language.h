// The CUDA dialect on a host compiler: keywords, index variables, Launch and DynamicShared of the simulated device.
//
// No toolkit header is involved. The index variables of block_executor.h and `__shared__` arrays are plain statics
// because all kernels of a process run on one executor thread, a block at a time (see block_executor.h); kernel code
// must therefore never be called from any other thread.
#pragma once

#include <cmath>
#include <cstring>
#include <utility>

#include "device/sim/block_executor.h"
#include "device/sim/kernel_call.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __shared__ static
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

namespace cudaep::device {

// Queues `kernel` on `stream` with its arguments by value. A wrong configuration or a wrong pointer among the
// arguments is reported here; what only shows while the kernel runs becomes the device's sticky error.
template <class... P, class... A>
Status Launch(void (*kernel)(P...), const LaunchConfig& config, Stream stream, A&&... args) {
  using Arguments = sim::KernelArguments<P...>;
  static_assert(sizeof...(P) == sizeof...(A), "the kernel takes another number of arguments");
  static_assert((std::is_trivially_copyable_v<P> && ...), "kernel arguments are copied as bytes");
  static_assert(Arguments::kBytes <= kMaxLaunchArgumentBytes, "kernel arguments take at most 4 KB");
  alignas(16) std::byte bytes[Arguments::kBytes + 1] = {};  // zeroed: padding is scanned for pointers
  Arguments::Store(bytes, static_cast<P>(std::forward<A>(args))...);
  return sim::SubmitKernel(reinterpret_cast<sim::AnyKernel>(kernel), Arguments::kSignature, bytes, config, stream);
}

// The block's dynamic shared memory (LaunchConfig::shared_bytes of it), aligned to 16 bytes.
template <class T>
T* DynamicShared() {
  return static_cast<T*>(sim::BlockExecutor::Get().shared());
}

}  // namespace cudaep::device
