#include <cmath>

#include "core/data_type_traits.h"
#include "kernels/pool/pool_window.cuh"

namespace cudaep::kernels {
namespace {

template <class T>
__global__ void __launch_bounds__(kPoolThreads)
    LpPoolKernel(const T* x, T* y, double exponent, const __grid_constant__ PoolArgs args) {
  using C = ComputeType<T>;
  device::GridDependencyWait();
  const uint32_t thread = blockIdx.x * kPoolThreads + threadIdx.x;
  if (thread >= args.threads) return;
  const PoolPlace at = LocatePool(args, thread);
  const T* const plane = x + at.input;
  const C p = static_cast<C>(exponent);
  const bool one = p == C(1), two = p == C(2);
  C sum{};
  VisitWindow(args.shape, at, [&](int offset) {
    const C value = std::fabs(Load(plane[offset]));
    sum += one ? value : two ? value * value : std::pow(value, p);
  });
  y[at.output] = Store<T>(one ? sum : two ? std::sqrt(sum) : std::pow(sum, C(1) / p));
}

template <class T>
Status LaunchAs(const PoolShape& shape, double p, const void* x, void* y, device::Stream stream) {
  return LaunchPlanes(shape, [&](const device::LaunchConfig& config, const PoolArgs& args) {
    return device::Launch(LpPoolKernel<T>, config, stream, static_cast<const T*>(x), static_cast<T*>(y), p, args);
  });
}

}  // namespace

Status LaunchLpPool(const PoolShape& shape, double p, const void* x, void* y, device::Stream stream) {
  return VisitType<kAveragePoolTypes>(shape.type, NotSupported("pooling of element type ", DataTypeName(shape.type)),
                                      [&]<class T>() { return LaunchAs<T>(shape, p, x, y, stream); });
}

}  // namespace cudaep::kernels
