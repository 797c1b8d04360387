#include "kernels/pool/pool_window.cuh"
#include "kernels/quant/qlinear_pool.h"
#include "kernels/quant/saturated.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256, kWarp = 32, kRows = kThreads / kWarp;
constexpr int64_t kMostOuterBlocks = 65535;

template <class T>
__global__ void __launch_bounds__(kPoolThreads)
    PoolKernel(const T* x, T* y, bool count_padding, __grid_constant__ const PoolArgs args,
               __grid_constant__ const QLinearMean p) {
  device::GridDependencyWait();
  const uint32_t thread = blockIdx.x * kPoolThreads + threadIdx.x;
  if (thread >= args.threads) return;
  const PoolPlace at = LocatePool(args, thread);
  const T* const plane = x + at.input;
  const int64_t channels = args.shape.channels;
  int32_t sum = 0;
  VisitWindow(args.shape, at, [&](int offset) { sum += static_cast<int32_t>(plane[offset * channels]) - p.x_zero; });
  const int64_t count = CountTaps(args.shape, at, count_padding);
  const float real = count == 0 ? 0.0f : static_cast<float>(sum) * p.ratio / static_cast<float>(count);
  y[at.output] = Saturated<T>(rintf(real), p.y_zero);
}

template <class T>
__device__ __forceinline__ T CodeOf(uint32_t sum, const QLinearMean& p) {
  return Saturated<T>(rintf(static_cast<float>(static_cast<int32_t>(sum)) * p.ratio), p.y_zero);
}

// A block a row of elements that lie side by side.
template <class T>
__global__ void __launch_bounds__(kThreads)
    RowMeanKernel(const T* x, T* y, int64_t rows, int64_t elems, __grid_constant__ const QLinearMean p) {
  __shared__ uint32_t parts[kRows];
  device::GridDependencyWait();
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    uint32_t sum = 0;
    for (int64_t i = threadIdx.x; i < elems; i += kThreads) {
      sum += static_cast<uint32_t>(static_cast<int32_t>(x[row * elems + i]) - p.x_zero);
    }
    for (int offset = kWarp / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int warp = 1; warp < kRows; ++warp) sum += parts[warp];
      y[row] = CodeOf<T>(sum, p);
    }
    __syncthreads();
  }
}

// A warp's lanes have a channel each, the block's warps share its elements.
template <class T>
__global__ void __launch_bounds__(kThreads) ColumnMeanKernel(const T* x, T* y, int64_t outer, int64_t elems,
                                                             int64_t inner, __grid_constant__ const QLinearMean p) {
  __shared__ uint32_t parts[kRows][kWarp];
  device::GridDependencyWait();
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  for (int64_t o = blockIdx.y; o < outer; o += gridDim.y) {
    uint32_t sum = 0;
    for (int64_t i = threadIdx.y; i < elems && channel < inner; i += kRows) {
      sum += static_cast<uint32_t>(static_cast<int32_t>(x[(o * elems + i) * inner + channel]) - p.x_zero);
    }
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && channel < inner) {
      for (int row = 1; row < kRows; ++row) sum += parts[row][threadIdx.x];
      y[o * inner + channel] = CodeOf<T>(sum, p);
    }
    __syncthreads();
  }
}

template <class T>
Status LaunchPoolAs(const PoolShape& shape, bool count_padding, const QLinearMean& mean, const void* x, void* y,
                    device::Stream stream) {
  return LaunchPlanes(shape, [&](const device::LaunchConfig& config, const PoolArgs& args) {
    return device::Launch(PoolKernel<T>, config, stream, static_cast<const T*>(x), static_cast<T*>(y), count_padding,
                          args, mean);
  });
}

template <class T>
Status LaunchGlobalAs(const QLinearMean& mean, int64_t outer, int64_t elems, int64_t inner, const void* x, void* y,
                      device::Stream stream) {
  device::LaunchConfig config;
  config.programmatic = true;
  if (inner == 1) {
    config.grid.x = static_cast<unsigned>(std::min<int64_t>(outer, 1 << 20));
    config.block.x = kThreads;
    return device::Launch(RowMeanKernel<T>, config, stream, static_cast<const T*>(x), static_cast<T*>(y), outer, elems,
                          mean);
  }
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(inner, kWarp));
  config.grid.y = static_cast<unsigned>(std::min(outer, kMostOuterBlocks));
  config.block.x = kWarp, config.block.y = kRows;
  return device::Launch(ColumnMeanKernel<T>, config, stream, static_cast<const T*>(x), static_cast<T*>(y), outer, elems,
                        inner, mean);
}

}  // namespace

Status LaunchQLinearPool(const PoolShape& shape, bool count_padding, const QLinearMean& mean, const void* x, void* y,
                         device::Stream stream) {
  auto* const launch = mean.type == DataType::kInt8 ? &LaunchPoolAs<int8_t> : &LaunchPoolAs<uint8_t>;
  return launch(shape, count_padding, mean, x, y, stream);
}

Status LaunchQLinearGlobalMean(const QLinearMean& mean, int64_t outer, int64_t elems, int64_t inner, const void* x,
                               void* y, device::Stream stream) {
  if (outer == 0 || inner == 0) return Status::Ok();
  auto* const launch = mean.type == DataType::kInt8 ? &LaunchGlobalAs<int8_t> : &LaunchGlobalAs<uint8_t>;
  return launch(mean, outer, elems, inner, x, y, stream);
}

}  // namespace cudaep::kernels
