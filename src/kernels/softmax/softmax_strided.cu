// Threads along the inner dimension (x) so that loads coalesce, and along the axis (y) where that is long.
#include <bit>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/fast_divide.h"
#include "kernels/softmax/softmax.h"
#include "kernels/softmax/softmax_math.cuh"

namespace cudaep::kernels {
namespace {

constexpr unsigned kThreads = 256;  // of a block, where columns are short
constexpr int kHeld = 16;           // elements of a column that a thread keeps in registers
constexpr int kInFlight = 4;        // independent loads of a thread that cannot keep what it reads

// One value of the threads that share a column, merged in the same order by each of them.
template <class C, class Op>
__device__ __forceinline__ C OverColumn(C value, Op op) {
  if (blockDim.y == 1) return value;
  __shared__ C value_of[kThreads];
  __syncthreads();  // others may still read what was there
  value_of[threadIdx.y * blockDim.x + threadIdx.x] = value;
  __syncthreads();
  value = value_of[threadIdx.x];
  for (unsigned row = 1; row < blockDim.y; ++row) value = op(value, value_of[row * blockDim.x + threadIdx.x]);
  return value;
}

// The maximum and sum of a column from those of the threads that share it, `height` apart by blockDim.x; a power of
// two.
template <class C>
__device__ __forceinline__ void CombineColumn(OnlineSum<C>& online) {
  __shared__ C max_of[kThreads];
  __shared__ C sum_of[kThreads];
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
__global__ void __launch_bounds__(kThreads)
    SoftmaxStridedKernel(const T* x, T* y, int64_t columns, int64_t elems, int64_t inner, bool log) {
  using C = ComputeType<T>;
  device::GridDependencyWait();
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t length = column < columns ? elems : 0;
  const int64_t base = column / inner * inner * elems + column % inner;

  if constexpr (kOnce) {
    C value[kHeld];
    C own_max = NegativeInfinity<C>(), own_sum = 0;
    const auto at = [&](int j) { return threadIdx.y + j * static_cast<int64_t>(blockDim.y); };
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      if (at(j) < length) value[j] = Load(x[base + at(j) * inner]);
    }
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      if (at(j) < length) own_max = device::Max(own_max, value[j]);
    }
    const C max = OverColumn(own_max, [](C p, C q) { return device::Max(p, q); });
    const ExpBelow<T> exp_below{max == NegativeInfinity<C>() ? C(0) : max};
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      if (at(j) >= length) continue;
      const C exponential = exp_below(value[j]);
      own_sum += exponential;
      if (!log) value[j] = exponential;
    }
    C sum = OverColumn(own_sum, [](C p, C q) { return p + q; });
    if (max == NegativeInfinity<C>()) sum = max - max;
    const C factor = C(1) / sum, log_sum = std::log(sum);
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      if (at(j) >= length) continue;
      y[base + at(j) * inner] = Store<T>(log ? value[j] - max - log_sum : value[j] * factor);
    }
  } else {
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
      const ExpBelow<T> exp_below{online.RaiseMax(max)};
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) online.sum += exp_below(value[j]);
    }
    CombineColumn(online);
    const SoftmaxOutput<C> output(online.max, online.sum, log);
    for (int64_t i = threadIdx.y; i < length; i += blockDim.y) {
      y[base + i * inner] = Store<T>(output.template Of<T>(Load(x[base + i * inner])));
    }
  }
}

// Many short columns: a thread has kPack neighbouring ones, of at most kLength elements. `packs_of_inner`: of the inner
// dimension.
template <class T, int kPack, int kLength>
__global__ void __launch_bounds__(kThreads)
    SoftmaxColumnsKernel(const T* x, T* y, uint32_t packs, int elems, FastDivider packs_of_inner, bool log) {
  using C = ComputeType<T>;
  device::GridDependencyWait();
  const uint32_t pack = blockIdx.x * kThreads + threadIdx.x;
  if (pack >= packs) return;
  uint32_t place;
  const int64_t outer = packs_of_inner.DivideWithRemainder(pack, &place);
  const int64_t inner = int64_t{packs_of_inner.divisor} * kPack;
  const int64_t base = outer * elems * inner + int64_t{place} * kPack;
  C value[kLength][kPack];
  C max[kPack], sum[kPack];
#pragma unroll
  for (int j = 0; j < kLength; ++j) {
    if (j < elems) UnpackCompute<T, kPack>(LoadRaw<kPack>(x + base + j * inner), value[j]);
  }
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    max[k] = NegativeInfinity<C>(), sum[k] = 0;
#pragma unroll
    for (int j = 0; j < kLength; ++j) {
      if (j < elems) max[k] = device::Max(max[k], value[j][k]);
    }
    const ExpBelow<T> exp_below{max[k] == NegativeInfinity<C>() ? C(0) : max[k]};
#pragma unroll
    for (int j = 0; j < kLength; ++j) {
      if (j >= elems) continue;
      const C exponential = exp_below(value[j][k]);
      sum[k] += exponential;
      if (!log) value[j][k] = exponential;
    }
    if (max[k] == NegativeInfinity<C>()) sum[k] = max[k] - max[k];
    const C factor = C(1) / sum[k], log_sum = std::log(sum[k]);
#pragma unroll
    for (int j = 0; j < kLength; ++j) {
      if (j < elems) value[j][k] = log ? value[j][k] - max[k] - log_sum : value[j][k] * factor;
    }
  }
#pragma unroll
  for (int j = 0; j < kLength; ++j) {
    if (j < elems) StoreWords<kPack>(y + base + j * inner, PackCompute<T, kPack>(value[j]));
  }
}

// `*launched` stays false where columns are long, few or no whole packs.
template <class T>
Status LaunchColumns(const SoftmaxStridedArgs& args, device::Stream stream, bool* launched) {
  constexpr int kPack = sizeof(T) == 2 ? 2 : 1, kShort = 16, kMost = 32;
  constexpr int64_t kFewest = 1 << 16;  // with fewer, threads that share a column fill the device
  const int64_t packs = args.outer * args.inner / kPack;
  const bool whole =
      args.inner % kPack == 0 && IsAligned(args.x, kPack * sizeof(T)) && IsAligned(args.y, kPack * sizeof(T));
  if (!whole || args.elems > kMost || packs < kFewest || packs > INT32_MAX - int64_t{kThreads}) return Status::Ok();
  *launched = true;
  device::LaunchConfig config;
  config.block.x = kThreads;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(packs, kThreads));
  config.programmatic = true;
  return device::Launch(
      args.elems <= kShort ? SoftmaxColumnsKernel<T, kPack, kShort> : SoftmaxColumnsKernel<T, kPack, kMost>, config,
      stream, static_cast<const T*>(args.x), static_cast<T*>(args.y), static_cast<uint32_t>(packs),
      static_cast<int>(args.elems), FastDivider(static_cast<uint32_t>(args.inner / kPack)), args.log);
}

template <class T>
Status Launch(const SoftmaxStridedArgs& args, device::Stream stream) {
  if constexpr (sizeof(T) <= 4) {
    bool launched = false;
    CUDAEP_RETURN_IF_ERROR(LaunchColumns<T>(args, stream, &launched));
    if (launched) return Status::Ok();
  }
  const int64_t columns = args.outer * args.inner;
  device::LaunchConfig config;
  config.block.x = columns <= 32 ? std::bit_ceil(static_cast<unsigned>(columns)) : 32;
  // At least eight elements for each thread of a column.
  const int64_t height = std::min<int64_t>(CeilDiv<int64_t>(args.elems, 8), kThreads / config.block.x);
  config.block.y = std::bit_floor(static_cast<unsigned>(height));
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
