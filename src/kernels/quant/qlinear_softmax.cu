#include <algorithm>

#include "device/launch.h"
#include "kernels/quant/qlinear_softmax.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int64_t kMostBlocks = 1 << 20;

// A block a row.
template <class T>
__global__ void __launch_bounds__(kThreads)
    QLinearSoftmaxKernel(__grid_constant__ const QLinearSoftmax p, const T* x, T* y) {
  __shared__ float power[256];
  __shared__ int32_t highest_of[kWarps];
  __shared__ float sum_of[kWarps];
  constexpr float kLowest = std::is_signed_v<T> ? -128.0f : 0.0f;
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
      const float code = rintf(power[highest - x[at]] / sum / p.y_scale) + static_cast<float>(p.y_zero);
      y[at] = static_cast<T>(static_cast<int32_t>(fminf(fmaxf(code, kLowest), kLowest + 255.0f)));
    }
  }
}

template <class T>
Status LaunchAs(const QLinearSoftmax& softmax, const void* x, void* y, device::Stream stream) {
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(std::min(softmax.outer * softmax.inner, kMostBlocks));
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(QLinearSoftmaxKernel<T>, config, stream, softmax, static_cast<const T*>(x), static_cast<T*>(y));
}

}  // namespace

Status LaunchQLinearSoftmax(const QLinearSoftmax& softmax, const void* x, void* y, device::Stream stream) {
  if (softmax.outer * softmax.axis * softmax.inner == 0) return Status::Ok();
  if (softmax.type == DataType::kInt8) return LaunchAs<int8_t>(softmax, x, y, stream);
  return LaunchAs<uint8_t>(softmax, x, y, stream);
}

}  // namespace cudaep::kernels
