#include "kernels/pool/pool_window.cuh"
#include "kernels/quant/qlinear_pool.h"
#include "kernels/quant/saturated.cuh"

namespace cudaep::kernels {
namespace {

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
Status LaunchPoolAs(const PoolShape& shape, bool count_padding, const QLinearMean& mean, const void* x, void* y,
                    device::Stream stream) {
  return LaunchPlanes(shape, [&](const device::LaunchConfig& config, const PoolArgs& args) {
    return device::Launch(PoolKernel<T>, config, stream, static_cast<const T*>(x), static_cast<T*>(y), count_padding,
                          args, mean);
  });
}

}  // namespace

Status LaunchQLinearPool(const PoolShape& shape, bool count_padding, const QLinearMean& mean, const void* x, void* y,
                         device::Stream stream) {
  auto* const launch = shape.type == DataType::kInt8 ? &LaunchPoolAs<int8_t> : &LaunchPoolAs<uint8_t>;
  return launch(shape, count_padding, mean, x, y, stream);
}

}  // namespace cudaep::kernels
