// Kernel launches, and the device vocabulary every kernel file is written in.
//
// A kernel source (`.cu`) includes this header and nothing of CUDA: nvcc compiles it for GPUs, the host compiler for
// the simulated device. Both builds offer threadIdx & co, __syncthreads, the warp and atomic functions of
// device/intrinsics.h, static `__shared__` arrays, and DynamicShared<T>() in place of `extern __shared__`.
//
// Arguments are passed by value and must be trivially copyable; pointers among them must point to device memory or
// pinned memory of the stream's device. Together they take at most 4 KB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/status.h"
#include "device/device.h"
#include "device/launch_config.h"

#if defined(CUDAEP_SIMULATED_DEVICE)
#include "device/sim/kernel_language.h"
#else
#include "device/cuda/kernel_language.h"
#endif

#include "core/float16.h"
#include "device/intrinsics.h"
