// Threads along the inner dimension (x) so that loads coalesce, and along the axis (y) where that is long.
#include <bit>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/softmax/softmax.h"
#include "kernels/softmax/softmax_math.cuh"

namespace cudaep::kernels {
namespace {

constexpr unsigned kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads)
    SoftmaxStridedKernel(const T* x, T* y, int64_t columns, int64_t elems, int64_t inner, bool log) {
  using C = ComputeType<T>;
  constexpr int kInFlight = 4;
  __shared__ C max_of[kThreads];
  __shared__ C sum_of[kThreads];
  device::GridDependencyWait();
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t length = column < columns ? elems : 0;
  const int64_t base = column / inner * inner * elems + column % inner;

  OnlineSum<C> online;
  for (int64_t i = threadIdx.y; i < length; i += kInFlight * blockDim.y) {
    C value[kInFlight];
    C max = NegativeInfinity<C>();
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const int64_t at = i + j * static_cast<int64_t>(blockDim.y);
      value[j] = at < length ? Load(x[base + at * inner]) : NegativeInfinity<C>();
      max = device::Max(max, value[j]);
    }
    const C subtracted = online.RaiseMax(max);
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) online.sum += SoftmaxExp(value[j] - subtracted);
  }
  if (blockDim.y > 1) {
    const unsigned self = threadIdx.y * blockDim.x + threadIdx.x;
    max_of[self] = online.max;
    sum_of[self] = online.sum;
    __syncthreads();
    for (unsigned other = threadIdx.x; other < blockDim.x * blockDim.y; other += blockDim.x) {
      if (other == self) continue;
      OnlineSum<C> partial{max_of[other], sum_of[other]};
      const C max = device::Max(online.max, partial.max);
      online.RaiseMax(max);
      partial.RaiseMax(max);
      online.sum += partial.sum;
    }
  }
  const SoftmaxOutput<C> output(online.max, online.sum, log);
  for (int64_t i = threadIdx.y; i < length; i += blockDim.y) {
    y[base + i * inner] = Store<T>(output(Load(x[base + i * inner])));
  }
}

template <class T>
Status Launch(const SoftmaxStridedArgs& args, device::Stream stream) {
  const int64_t columns = args.outer * args.inner;
  device::LaunchConfig config;
  config.block.x = columns <= 32 ? std::bit_ceil(static_cast<unsigned>(columns)) : 32;
  // At least eight elements for each thread of a column.
  const int64_t height = std::min<int64_t>(CeilDiv<int64_t>(args.elems, 8), kThreads / config.block.x);
  config.block.y = std::bit_floor(static_cast<unsigned>(height));
  if (config.block.y == 1 && columns >= kThreads) config.block.x = kThreads;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(columns, config.block.x));
  config.programmatic = true;
  return device::Launch(SoftmaxStridedKernel<T>, config, stream, static_cast<const T*>(args.x), static_cast<T*>(args.y),
                        columns, args.elems, args.inner, args.log);
}

}  // namespace

Status LaunchSoftmaxStrided(const SoftmaxStridedArgs& args, device::Stream stream) {
  if (args.outer == 0 || args.elems == 0 || args.inner == 0) return Status::Ok();
  return VisitType<kSoftmaxTypes>(args.type, NotSupported("softmax of ", DataTypeName(args.type)),
                                  [&]<class T>() { return Launch<T>(args, stream); });
}

}  // namespace cudaep::kernels
