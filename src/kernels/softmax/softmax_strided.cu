// Threads along the inner dimension (x) so that loads coalesce, and along the axis (y) where that is long.
#include <bit>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/softmax/softmax.h"
#include "kernels/softmax/softmax_math.cuh"

namespace cudaep::kernels {
namespace {

constexpr unsigned kThreads = 256;  // of a block, where columns are short
constexpr unsigned kMaxThreads = 1024;
constexpr int kHeld = 16;     // elements of a column that a thread keeps in registers
constexpr int kInFlight = 4;  // independent loads of a thread that cannot keep what it reads

// The maximum and sum of a column from those of the threads that share it, `height` apart by blockDim.x; a power of
// two.
template <class C>
__device__ __forceinline__ void CombineColumn(OnlineSum<C>& online) {
  __shared__ C max_of[kMaxThreads];
  __shared__ C sum_of[kMaxThreads];
  const unsigned self = threadIdx.y * blockDim.x + threadIdx.x;
  for (unsigned height = blockDim.y; height > 1; height /= 2) {
    max_of[self] = online.max;
    sum_of[self] = online.sum;
    __syncthreads();
    // Both of a pair merge the same two in the same order, so that all threads end with the same bits.
    const unsigned partner = (threadIdx.y ^ (height / 2)) * blockDim.x + threadIdx.x;
    OnlineSum<C> low{max_of[device::Min(self, partner)], sum_of[device::Min(self, partner)]};
    OnlineSum<C> high{max_of[device::Max(self, partner)], sum_of[device::Max(self, partner)]};
    const C max = device::Max(low.max, high.max);
    low.RaiseMax(max);
    high.RaiseMax(max);
    online = {max, low.sum + high.sum};
    __syncthreads();
  }
}

// A column's elements, `inner` apart, go round the blockDim.y threads that share it. `kOnce`: each has at most kHeld.
template <class T, bool kOnce>
__global__ void __launch_bounds__(kMaxThreads)
    SoftmaxStridedKernel(const T* x, T* y, int64_t columns, int64_t elems, int64_t inner, bool log) {
  using C = ComputeType<T>;
  constexpr int kBatch = kOnce ? kHeld : kInFlight;
  device::GridDependencyWait();
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t length = column < columns ? elems : 0;
  const int64_t base = column / inner * inner * elems + column % inner;

  OnlineSum<C> online;
  C value[kBatch];
  for (int64_t i = threadIdx.y; i < length; i += kBatch * blockDim.y) {
    C max = NegativeInfinity<C>();
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int64_t at = i + j * static_cast<int64_t>(blockDim.y);
      value[j] = at < length ? Load(x[base + at * inner]) : NegativeInfinity<C>();
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) max = device::Max(max, value[j]);
    const C subtracted = online.RaiseMax(max);
#pragma unroll
    for (int j = 0; j < kBatch; ++j) online.sum += SoftmaxExpFor<T>(value[j], subtracted);
  }
  CombineColumn(online);
  const SoftmaxOutput<C> output(online.max, online.sum, log);
  if constexpr (kOnce) {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      const int64_t at = threadIdx.y + j * static_cast<int64_t>(blockDim.y);
      if (at < length) y[base + at * inner] = Store<T>(output.template Of<T>(value[j]));
    }
  } else {
    for (int64_t i = threadIdx.y; i < length; i += blockDim.y) {
      y[base + i * inner] = Store<T>(output.template Of<T>(Load(x[base + i * inner])));
    }
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
  // More where the column then fits their registers.
  const auto holding = std::bit_ceil(static_cast<uint64_t>(CeilDiv<int64_t>(args.elems, kHeld)));
  if (holding <= kMaxThreads / config.block.x)
    config.block.y = std::max(config.block.y, static_cast<unsigned>(holding));
  if (config.block.y == 1 && columns >= kThreads) config.block.x = kThreads;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(columns, config.block.x));
  config.programmatic = true;
  const auto launch = [&](auto kernel) {
    return device::Launch(kernel, config, stream, static_cast<const T*>(args.x), static_cast<T*>(args.y), columns,
                          args.elems, args.inner, args.log);
  };
  return args.elems <= int64_t{kHeld} * config.block.y ? launch(SoftmaxStridedKernel<T, true>)
                                                       : launch(SoftmaxStridedKernel<T, false>);
}

}  // namespace

Status LaunchSoftmaxStrided(const SoftmaxStridedArgs& args, device::Stream stream) {
  if (args.outer == 0 || args.elems == 0 || args.inner == 0) return Status::Ok();
  return VisitType<kSoftmaxTypes>(args.type, NotSupported("softmax of ", DataTypeName(args.type)),
                                  [&]<class T>() { return Launch<T>(args, stream); });
}

}  // namespace cudaep::kernels
