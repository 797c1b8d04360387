// The kernels of a scan, for one operation; see scan.h.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/scan/scan_limits.h"

namespace cudaep::kernels {

struct SumScan {
  template <class C>
  static constexpr bool kNeedsRange = false;
  template <class C>
  static __device__ __forceinline__ C Identity() {
    return C(0);
  }
  template <class C>
  __device__ __forceinline__ C operator()(C a, C b) const {
    return a + b;
  }
};

// A product of some floats in the middle may be infinite, or lose digits, where that of all before them is not: parts
// are multiplied on their own only where all of them are normal numbers.
struct ProductScan {
  template <class C>
  static constexpr bool kNeedsRange = std::is_floating_point_v<C>;
  template <class C>
  static __device__ __forceinline__ C Identity() {
    return C(1);
  }
  template <class C>
  __device__ __forceinline__ C operator()(C a, C b) const {
    return a * b;
  }
};

// With `totals` only those are written, one for each line and segment; with `before` a segment starts with its own.
template <class T>
struct ScanArguments {
  const T* in;
  T* out;
  ComputeType<T>* totals;
  const ComputeType<T>* before;
  int64_t outer, length, inner;
  int64_t segments, segment_length;
  int64_t exclusive, reverse;
  int64_t packed;  // rows may be read and written by packs

  // Where position p of a line, counted in the direction of the scan, lies in it.
  __device__ __forceinline__ int64_t At(int64_t p) const { return reverse != 0 ? length - 1 - p : p; }
};

// A thread a column and segment.
template <class T, class Op>
__global__ void __launch_bounds__(kScanBlock) ColumnScanKernel(__grid_constant__ const ScanArguments<T> p) {
  using C = ComputeType<T>;
  constexpr int kLoads = 8;  // in flight
  device::GridDependencyWait();
  const int64_t number = static_cast<int64_t>(blockIdx.x) * kScanBlock + threadIdx.x;
  if (number >= p.outer * p.segments * p.inner) return;
  const int64_t line = number / p.inner, column = number - line * p.inner;
  const int64_t outer = line / p.segments, segment = line - outer * p.segments;
  const int64_t begin = segment * p.segment_length, end = device::Min(begin + p.segment_length, p.length);
  const int64_t step = p.reverse != 0 ? -p.inner : p.inner;
  int64_t at = (outer * p.length + p.At(begin)) * p.inner + column;
  C sum = p.before != nullptr ? p.before[number] : Op::template Identity<C>();
  for (int64_t first = begin; first < end; first += kLoads, at += kLoads * step) {
    const int count = static_cast<int>(device::Min<int64_t>(end - first, kLoads));
    C value[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      if (k < count) value[k] = Load(p.in[at + k * step]);
    }
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      if (k >= count) break;
      const C next = Op()(sum, value[k]);
      if (p.totals == nullptr) p.out[at + k * step] = Store<T>(p.exclusive != 0 ? sum : next);
      sum = next;
    }
  }
  if (p.totals != nullptr) p.totals[number] = sum;
}

// The elements of a pack from position `first` on, in the direction of the scan; identities beyond `end`.
template <class T, class Op, int kPack>
__device__ __forceinline__ void LoadScanPack(const ScanArguments<T>& p, const T* row, int64_t first, int64_t end,
                                             ComputeType<T> (&value)[kPack]) {
  using C = ComputeType<T>;
  if (p.packed != 0 && first + kPack <= end) {
    const Pack<T, kPack> pack = LoadPack<kPack>(row + (p.reverse != 0 ? p.length - first - kPack : first));
#pragma unroll
    for (int k = 0; k < kPack; ++k) value[k] = Load(p.reverse != 0 ? pack.value[kPack - 1 - k] : pack.value[k]);
    return;
  }
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    value[k] = first + k < end ? Load(row[p.At(first + k)]) : Op::template Identity<C>();
  }
}

template <class T, int kPack>
__device__ __forceinline__ void StoreScanPack(const ScanArguments<T>& p, T* row, int64_t first, int64_t end,
                                              const ComputeType<T> (&value)[kPack]) {
  if (p.packed != 0 && first + kPack <= end) {
    Pack<T, kPack> pack;
#pragma unroll
    for (int k = 0; k < kPack; ++k) pack.value[k] = Store<T>(p.reverse != 0 ? value[kPack - 1 - k] : value[k]);
    StorePack<kPack>(row + (p.reverse != 0 ? p.length - first - kPack : first), pack);
    return;
  }
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    if (first + k < end) row[p.At(first + k)] = Store<T>(value[k]);
  }
}

template <class C>
__device__ __forceinline__ bool IsNormal(C x) {
  const C size = std::fabs(x);
  return size >= std::numeric_limits<C>::min() && size <= std::numeric_limits<C>::max();
}

// kThreads threads of the block at `shared`, which holds a tile: what they hold of one becomes its scan from `sum` on,
// one element after the other.
template <class Op, int kThreads, int kPack, class C>
__device__ __forceinline__ void ScanInOrder(C* shared, int thread, bool exclusive, C& sum, C (&value)[kPack]) {
  const auto meet = [] {
    if constexpr (kThreads > 32) {
      __syncthreads();
    } else {
      __syncwarp();
    }
  };
#pragma unroll
  for (int k = 0; k < kPack; ++k) shared[thread * kPack + k] = value[k];
  meet();
  if (thread == 0) {
    C running = sum;
    for (int i = 0; i < kThreads * kPack; ++i) {
      const C next = Op()(running, shared[i]);
      shared[i] = exclusive ? running : next;
      running = next;
    }
    shared[kThreads * kPack] = running;
  }
  meet();
#pragma unroll
  for (int k = 0; k < kPack; ++k) value[k] = shared[thread * kPack + k];
  sum = shared[kThreads * kPack];
  meet();
}

// kThreads threads, a warp or the block, for each row and segment.
template <class T, class Op, int kThreads>
__global__ void __launch_bounds__(kScanBlock) RowScanKernel(__grid_constant__ const ScanArguments<T> p) {
  using C = ComputeType<T>;
  constexpr int kPack = PackElems(sizeof(T));
  constexpr int64_t kTile = int64_t{kThreads} * kPack;
  constexpr int kWarps = kThreads / 32;
  device::GridDependencyWait();
  __shared__ C warp_sums[2][kWarps];  // in turn, so that one barrier a tile is enough
  constexpr bool kNeedsRange = Op::template kNeedsRange<C>;
  [[maybe_unused]] __shared__ C in_order[kNeedsRange ? kScanBlock / kThreads * (kTile + 1) : 1];
  const int64_t group = (static_cast<int64_t>(blockIdx.x) * kScanBlock + threadIdx.x) / kThreads;
  if (group >= p.outer * p.segments) return;  // whole warps, or none of the block
  const int thread = static_cast<int>(threadIdx.x % kThreads);
  const int lane = thread % 32, warp = thread / 32;
  const int64_t outer = group / p.segments, segment = group - outer * p.segments;
  const int64_t begin = segment * p.segment_length, end = device::Min(begin + p.segment_length, p.length);
  const T* const in = p.in + outer * p.length;
  T* const out = p.out + outer * p.length;
  C sum = p.before != nullptr ? p.before[group] : Op::template Identity<C>();
  int turn = 0;
  C next[kPack];
  LoadScanPack<T, Op>(p, in, begin + int64_t{thread} * kPack, end, next);
  for (int64_t tile = begin; tile < end; tile += kTile) {
    C value[kPack];
#pragma unroll
    for (int k = 0; k < kPack; ++k) value[k] = next[k];
    const int64_t first = tile + int64_t{thread} * kPack;
    if (tile + kTile < end) LoadScanPack<T, Op>(p, in, first + kTile, end, next);
    [[maybe_unused]] bool in_range = true;
    const auto keep = [&](C part) {
      if constexpr (kNeedsRange) in_range = in_range && IsNormal(part);
      return part;
    };
    C mine = keep(value[0]);
#pragma unroll
    for (int k = 1; k < kPack; ++k) mine = keep(Op()(mine, value[k]));
#pragma unroll
    for (unsigned offset = 1; offset < 32; offset *= 2) {
      const C lower = __shfl_up_sync(device::kFullWarp, mine, offset);
      if (lane >= static_cast<int>(offset)) mine = keep(Op()(lower, mine));
    }
    C prefix = __shfl_up_sync(device::kFullWarp, mine, 1);
    if (lane == 0) prefix = Op::template Identity<C>();
    C whole = __shfl_sync(device::kFullWarp, mine, 31);
    if constexpr (kWarps > 1) {
      if (lane == 0) warp_sums[turn][warp] = whole;
      __syncthreads();
      whole = Op::template Identity<C>();
      for (int w = 0; w < kWarps; ++w) {
        if (w == warp) prefix = keep(Op()(whole, prefix));
        whole = keep(Op()(whole, warp_sums[turn][w]));
      }
      turn ^= 1;
    }
    if (p.totals == nullptr) {
      // Zero, infinity and NaN stay what they are whatever normal numbers they are multiplied by.
      const auto keep_running = [&](C part) {
        if constexpr (kNeedsRange) return sum != C(0) && std::isfinite(sum) ? keep(part) : part;
        return part;
      };
      C running = keep_running(Op()(sum, prefix));
      C result[kPack];
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        const C inclusive = keep_running(Op()(running, value[k]));
        result[k] = p.exclusive != 0 ? running : inclusive;
        running = inclusive;
      }
      if constexpr (kNeedsRange) {
        const bool stays = kWarps > 1 ? __syncthreads_and(in_range) != 0 : __all_sync(device::kFullWarp, in_range);
        if (!stays) {
          const int tile_at = static_cast<int>(threadIdx.x) / kThreads * static_cast<int>(kTile + 1);
          ScanInOrder<Op, kThreads>(in_order + tile_at, thread, p.exclusive != 0, sum, value);
          StoreScanPack(p, out, first, end, value);
          continue;
        }
      }
      StoreScanPack(p, out, first, end, result);
    }
    sum = Op()(sum, whole);
  }
  if (p.totals != nullptr && thread == 0) p.totals[group] = sum;
}

inline device::LaunchConfig ScanConfig(int64_t threads) {
  return {.grid = {static_cast<unsigned>(CeilDiv<int64_t>(threads, kScanBlock))},
          .block = {kScanBlock},
          .programmatic = true};
}

template <class T, class Op>
Status LaunchScanPass(const ScanArguments<T>& p, device::Stream stream) {
  const int64_t lines = p.outer * p.segments * p.inner;
  if (p.inner != 1) return device::Launch(ColumnScanKernel<T, Op>, ScanConfig(lines), stream, p);
  if (p.segment_length <= kLongestWarpRow) {
    return device::Launch(RowScanKernel<T, Op, 32>, ScanConfig(lines * 32), stream, p);
  }
  return device::Launch(RowScanKernel<T, Op, kScanBlock>, ScanConfig(lines * kScanBlock), stream, p);
}

template <class T, class Op>
Status LaunchScanOf(const Scan& scan, const void* in, void* out, void* scratch, device::Stream stream) {
  using C = ComputeType<T>;
  ScanArguments<T> p{.in = static_cast<const T*>(in),
                     .out = static_cast<T*>(out),
                     .totals = nullptr,
                     .before = nullptr,
                     .outer = scan.outer,
                     .length = scan.length,
                     .inner = scan.inner,
                     .segments = scan.segments,
                     .segment_length = scan.segment_length,
                     .exclusive = scan.exclusive,
                     .reverse = scan.reverse,
                     .packed = 0};
  const bool aligned = IsAligned(in, kPackBytes) && IsAligned(out, kPackBytes);
  p.packed = aligned && scan.length % PackElems(sizeof(T)) == 0 ? 1 : 0;
  if constexpr (Op::template kNeedsRange<C>) {
    p.segments = 1;
    p.segment_length = scan.length;
    return LaunchScanPass<T, Op>(p, stream);
  }
  if (scan.segments == 1) return LaunchScanPass<T, Op>(p, stream);
  auto* const totals = static_cast<C*>(scratch);
  p.totals = totals;
  CUDAEP_RETURN_IF_ERROR((LaunchScanPass<T, Op>(p, stream)));
  const ScanArguments<C> between{.in = totals,
                                 .out = totals,
                                 .totals = nullptr,
                                 .before = nullptr,
                                 .outer = scan.outer,
                                 .length = scan.segments,
                                 .inner = scan.inner,
                                 .segments = 1,
                                 .segment_length = scan.segments,
                                 .exclusive = 1,
                                 .reverse = 0,
                                 .packed = 0};
  CUDAEP_RETURN_IF_ERROR((LaunchScanPass<C, Op>(between, stream)));
  p.totals = nullptr;
  p.before = totals;
  return LaunchScanPass<T, Op>(p, stream);
}

// Integers of both signs are one type: they wrap around.
template <class Op>
Status LaunchScanTypes(const Scan& scan, const void* in, void* out, void* scratch, device::Stream stream) {
  switch (scan.type) {
    case DataType::kFloat:
      return LaunchScanOf<float, Op>(scan, in, out, scratch, stream);
    case DataType::kDouble:
      return LaunchScanOf<double, Op>(scan, in, out, scratch, stream);
    case DataType::kFloat16:
      return LaunchScanOf<Half, Op>(scan, in, out, scratch, stream);
    case DataType::kBFloat16:
      return LaunchScanOf<BFloat16, Op>(scan, in, out, scratch, stream);
    case DataType::kInt32:
    case DataType::kUint32:
      return LaunchScanOf<uint32_t, Op>(scan, in, out, scratch, stream);
    case DataType::kInt64:
    case DataType::kUint64:
      return LaunchScanOf<uint64_t, Op>(scan, in, out, scratch, stream);
    default:
      return NotSupported("element type ", DataTypeName(scan.type));
  }
}

Status LaunchProductScan(const Scan& scan, const void* in, void* out, void* scratch, device::Stream stream);

}  // namespace cudaep::kernels
