#include "core/data_type_traits.h"
#include "kernels/pool/pool_last.h"
#include "kernels/pool/pool_rows.cuh"
#include "kernels/pool/pool_window.cuh"

namespace cudaep::kernels {
namespace {

template <class T>
__global__ void __launch_bounds__(kPoolThreads)
    AveragePoolKernel(const T* x, T* y, bool count_padding, __grid_constant__ const PoolArgs args) {
  using C = ComputeType<T>;
  device::GridDependencyWait();
  const uint32_t thread = blockIdx.x * kPoolThreads + threadIdx.x;
  if (thread >= args.threads) return;
  const PoolPlace at = LocatePool(args, thread);
  const T* const plane = x + at.input;
  const int64_t channels = args.shape.channels;
  C sum{};
  VisitWindow(args.shape, at, [&](int offset) { sum += Load(plane[offset * channels]); });
  const int64_t count = CountTaps(args.shape, at, count_padding);
  y[at.output] = Store<T>(count == 0 ? C{} : sum / static_cast<C>(count));
}

template <class T>
Status LaunchAs(const PoolShape& shape, bool count_padding, const void* x, void* y, device::Stream stream) {
  return LaunchPlanes(shape, [&](const device::LaunchConfig& config, const PoolArgs& args) {
    return device::Launch(AveragePoolKernel<T>, config, stream, static_cast<const T*>(x), static_cast<T*>(y),
                          count_padding, args);
  });
}

}  // namespace

Status LaunchAveragePool(const PoolShape& shape, bool count_padding, const void* x, void* y, device::Stream stream) {
  bool launched = false;
  const Status status = shape.channels == 1 ? LaunchAveragePoolRows(shape, count_padding, x, y, stream, &launched)
                                            : LaunchAveragePoolLast(shape, count_padding, x, y, stream, &launched);
  if (launched) return status;
  const auto launch = VisitType<kAveragePoolTypes, decltype(&LaunchAs<float>)>(shape.type, nullptr,
                                                                               [&]<class T>() { return &LaunchAs<T>; });
  if (launch == nullptr) return NotSupported("average pooling of element type ", DataTypeName(shape.type));
  return launch(shape, count_padding, x, y, stream);
}

}  // namespace cudaep::kernels
