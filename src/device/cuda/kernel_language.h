// The CUDA dialect under nvcc: Launch and DynamicShared; everything else is the compiler's.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "device/cuda/launch_kernel.h"

namespace cudaep::device {

// Queues `kernel` on `stream` with its arguments by value; the status is that of the submission.
template <class... P, class... A>
Status Launch(void (*kernel)(P...), const LaunchConfig& config, Stream stream, A&&... args) {
  static_assert(sizeof...(P) == sizeof...(A), "the kernel takes another number of arguments");
  static_assert((std::is_trivially_copyable_v<P> && ...), "kernel arguments are copied as bytes");
  static_assert((sizeof(P) + ... + 0) <= kMaxLaunchArgumentBytes, "kernel arguments take at most 4 KB");
  return [&](P... values) {
    void* pointers[sizeof...(P) + 1] = {const_cast<void*>(static_cast<const void*>(&values))...};
    return cuda::LaunchKernel(reinterpret_cast<const void*>(kernel), config, stream, pointers);
  }(static_cast<P>(std::forward<A>(args))...);
}

// The block's dynamic shared memory (LaunchConfig::shared_bytes of it), aligned to 16 bytes.
template <class T>
__device__ __forceinline__ T* DynamicShared() {
  extern __shared__ __align__(16) unsigned char cudaep_dynamic_shared[];
  return reinterpret_cast<T*>(cudaep_dynamic_shared);
}

}  // namespace cudaep::device
