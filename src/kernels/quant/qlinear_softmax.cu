#include <algorithm>

#include "core/checked_math.h"
#include "device/launch.h"
#include "kernels/pack.h"
#include "kernels/quant/qlinear_softmax.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int64_t kMostBlocks = 1 << 20;

template <class T>
__device__ __forceinline__ T CodeOf(const QLinearSoftmax& p, float power, float sum) {
  constexpr float kLowest = std::is_signed_v<T> ? -128.0f : 0.0f;
  const float code = rintf(power / sum / p.y_scale) + static_cast<float>(p.y_zero);
  return static_cast<T>(static_cast<int32_t>(fminf(fmaxf(code, kLowest), kLowest + 255.0f)));
}

constexpr int kPack = 4;                              // codes of a word
constexpr int kMostPacks = 8;                         // of a lane
constexpr int kMostInWarp = 32 * kPack * kMostPacks;  // codes of a row
constexpr int64_t kBlocksOfWarps = 2048;              // some waves: each brings the powers once

// A warp a row, which it keeps. Rows are whole packs.
template <class T, int kPacks>
__global__ void __launch_bounds__(kThreads)
    QLinearSoftmaxRowsKernel(__grid_constant__ const QLinearSoftmax p, const T* x, T* y) {
  __shared__ float power[256];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (int i = static_cast<int>(threadIdx.x); i < 256; i += kThreads) power[i] = p.power[i];
  device::GridDependencyWait();
  __syncthreads();
  const int packs = static_cast<int>(p.axis) / kPack;
  for (int64_t row = blockIdx.x * int64_t{kWarps} + warp; row < p.outer; row += gridDim.x * int64_t{kWarps}) {
    Pack<T, kPack> codes[kPacks];
    int32_t highest = -128;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      if (i * 32 + lane >= packs) continue;
      codes[i] = LoadPack<kPack>(x + row * p.axis + (i * 32 + lane) * kPack);
#pragma unroll
      for (int k = 0; k < kPack; ++k) highest = device::Max(highest, static_cast<int32_t>(codes[i].value[k]));
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      highest = device::Max(highest, __shfl_xor_sync(0xffffffffu, highest, offset));
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      if (i * 32 + lane >= packs) continue;
#pragma unroll
      for (int k = 0; k < kPack; ++k) sum += power[highest - codes[i].value[k]];
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      if (i * 32 + lane >= packs) continue;
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        codes[i].value[k] = CodeOf<T>(p, power[highest - codes[i].value[k]], sum);
      }
      StorePack(y + row * p.axis + (i * 32 + lane) * kPack, codes[i]);
    }
  }
}

// A block a row.
template <class T>
__global__ void __launch_bounds__(kThreads)
    QLinearSoftmaxKernel(__grid_constant__ const QLinearSoftmax p, const T* x, T* y) {
  __shared__ float power[256];
  __shared__ int32_t highest_of[kWarps];
  __shared__ float sum_of[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (int i = static_cast<int>(threadIdx.x); i < 256; i += kThreads) power[i] = p.power[i];
  device::GridDependencyWait();
  for (int64_t row = blockIdx.x; row < p.outer * p.inner; row += gridDim.x) {
    const int64_t start = row / p.inner * p.axis * p.inner + row % p.inner;
    int32_t highest = -128;
    for (int64_t i = threadIdx.x; i < p.axis; i += kThreads) {
      highest = device::Max(highest, static_cast<int32_t>(x[start + i * p.inner]));
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      highest = device::Max(highest, __shfl_xor_sync(0xffffffffu, highest, offset));
    }
    if (lane == 0) highest_of[warp] = highest;
    __syncthreads();
    for (int i = 0; i < kWarps; ++i) highest = device::Max(highest, highest_of[i]);
    float sum = 0;
    for (int64_t i = threadIdx.x; i < p.axis; i += kThreads) sum += power[highest - x[start + i * p.inner]];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (lane == 0) sum_of[warp] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < kWarps; ++i) sum += sum_of[i];
    for (int64_t i = threadIdx.x; i < p.axis; i += kThreads) {
      const int64_t at = start + i * p.inner;
      y[at] = CodeOf<T>(p, power[highest - x[at]], sum);
    }
  }
}

template <class T>
Status LaunchAs(const QLinearSoftmax& softmax, const void* x, void* y, device::Stream stream) {
  const bool in_warp = softmax.inner == 1 && softmax.axis % kPack == 0 && softmax.axis <= kMostInWarp &&
                       IsAligned(x, kPack) && IsAligned(y, kPack);
  auto* kernel = &QLinearSoftmaxKernel<T>;
  if (in_warp) {
    const int64_t packs = CeilDiv<int64_t>(softmax.axis, 32 * kPack);
    kernel = packs == 1   ? &QLinearSoftmaxRowsKernel<T, 1>
             : packs == 2 ? &QLinearSoftmaxRowsKernel<T, 2>
             : packs <= 4 ? &QLinearSoftmaxRowsKernel<T, 4>
                          : &QLinearSoftmaxRowsKernel<T, kMostPacks>;
  }
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(in_warp ? std::min(CeilDiv<int64_t>(softmax.outer, kWarps), kBlocksOfWarps)
                                                : std::min(softmax.outer * softmax.inner, kMostBlocks));
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(kernel, config, stream, softmax, static_cast<const T*>(x), static_cast<T*>(y));
}

}  // namespace

Status LaunchQLinearSoftmax(const QLinearSoftmax& softmax, const void* x, void* y, device::Stream stream) {
  if (softmax.outer * softmax.axis * softmax.inner == 0) return Status::Ok();
  if (softmax.type == DataType::kInt8) return LaunchAs<int8_t>(softmax, x, y, stream);
  return LaunchAs<uint8_t>(softmax, x, y, stream);
}

}  // namespace cudaep::kernels
