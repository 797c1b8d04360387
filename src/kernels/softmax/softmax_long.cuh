// Softmax of long rows, one at a time for each block of a grid that covers the device once.
//
// A thread's packs are blockDim.x apart and handled in chunks of kLongChunk. The row's first chunks lie in shared
// memory, where those of the block's next row replace them as soon as they are written; the others are read twice, the
// second time from the L2 cache. A thread keeps to its own slots of shared memory, so that these need no barrier.
#pragma once

#include "kernels/softmax/softmax_input.cuh"

namespace cudaep::kernels {

// Copies a pack to shared memory without waiting for it.
template <int kPack, class T>
__device__ __forceinline__ void CopyToShared(RawPack<T, kPack>* slot, const T* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (sizeof(T) * kPack == 16) {
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(slot))),
        "l"(from)
        : "memory");
    return;
  }
#endif
  *slot = LoadRaw<kPack>(from);
}
// Ends a group of copies.
__device__ __forceinline__ void CommitCopies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits until no more than kNewest groups of the thread are under way.
template <int kNewest>
__device__ __forceinline__ void WaitForOldestCopies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kNewest) : "memory");
#endif
}

// A row as one thread sees it.
template <class T, int kPack>
struct LongRow {
  using C = ComputeType<T>;
  using Raw = RawPack<T, kPack>;
  const T* x;     // of the thread's first pack, like bias
  const T* bias;  // or null
  int packs;      // from the thread's first pack to the row's end

  __device__ __forceinline__ LongRow(const SoftmaxInput<T>& in, int64_t row)
      : x(in.x + (row * in.row_packs + threadIdx.x) * kPack),
        bias(in.bias == nullptr ? nullptr : in.bias + in.template BiasOffset<kPack>(row) + threadIdx.x * kPack),
        packs(row < in.rows ? in.row_packs - static_cast<int>(threadIdx.x) : 0) {}

  // Distance from the thread's first pack to pack j of a chunk.
  static __device__ __forceinline__ int At(int chunk, int j) {
    return (chunk * kLongChunk + j) * static_cast<int>(blockDim.x);
  }
  __device__ __forceinline__ const T* X(int at) const { return x + static_cast<int64_t>(at) * kPack; }

  __device__ __forceinline__ void Fetch(int chunk, Raw* slots) const {
#pragma unroll
    for (int j = 0; j < kLongChunk; ++j) {
      const int at = At(chunk, j);
      if (at < packs) CopyToShared<kPack>(slots + at, X(at));
    }
    CommitCopies();
  }

  // Two branches and not one condition for each load, which would be of a generic address.
  __device__ __forceinline__ void Load(int chunk, bool cached, const Raw* slots, C (*value)[kPack]) const {
    Raw raw[kLongChunk] = {};
    const bool whole = At(chunk, kLongChunk - 1) < packs;
    if (cached) {
#pragma unroll
      for (int j = 0; j < kLongChunk; ++j) raw[j] = slots[At(chunk, j)];  // beyond the row's end: anything
    } else {
#pragma unroll
      for (int j = 0; j < kLongChunk; ++j) {
        if (whole || At(chunk, j) < packs) raw[j] = LoadRaw<kPack>(X(At(chunk, j)));
      }
    }
#pragma unroll
    for (int j = 0; j < kLongChunk; ++j) UnpackCompute<T, kPack>(raw[j], value[j]);
    if (!whole) {
#pragma unroll
      for (int j = 0; j < kLongChunk; ++j) {
        if (At(chunk, j) >= packs) FillBeyondEnd<kPack>(value[j]);
      }
    }
    if (bias == nullptr) return;
#pragma unroll
    for (int j = 0; j < kLongChunk; ++j) {
      const int at = At(chunk, j);
      if (at < packs) AddPack<kPack>(bias + static_cast<int64_t>(at) * kPack, value[j]);
    }
  }
};

template <class T, int kPack>
__global__ void __launch_bounds__(kLongThreads)
    SoftmaxLongKernel(SoftmaxInput<T> in, T* y, bool log, int cached_chunks) {
  using C = ComputeType<T>;
  using Row = LongRow<T, kPack>;
  __shared__ C max_scratch[2][kMaxRowWarps];
  __shared__ C sum_scratch[2][kMaxRowWarps];
  auto* const slots = device::DynamicShared<RawPack<T, kPack>>() + threadIdx.x;
  device::GridDependencyWait();
  const int chunk_packs = static_cast<int>(blockDim.x) * kLongChunk;
  const int chunks = (in.row_packs + chunk_packs - 1) / chunk_packs;
  // As many groups of copies as there can be, some of them empty, so that the wait below is for a constant.
  const auto commit_missing = [&] {
    for (int chunk = cached_chunks; chunk < kLongCachedChunks; ++chunk) CommitCopies();
  };
  for (int chunk = 0; chunk < cached_chunks; ++chunk) Row(in, blockIdx.x).Fetch(chunk, slots);
  commit_missing();

  C value[kLongChunk][kPack];
  int parity = 0;
  for (int64_t index = blockIdx.x; index < in.rows; index += gridDim.x, parity ^= 1) {
    const Row row(in, index), next(in, index + gridDim.x);
    OnlineSum<C> online;
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; ++chunk) {
      if (chunk < cached_chunks) {
        WaitForOldestCopies<kLongCachedChunks - 1>();
        CommitCopies();
      }
      row.Load(chunk, chunk < cached_chunks, slots, value);
      const C base = online.RaiseMax(MaxOf<kLongChunk>(value));
      C sum[kLongChunk] = {};
#pragma unroll
      for (int j = 0; j < kLongChunk; ++j) {
#pragma unroll
        for (int k = 0; k < kPack; ++k) sum[j] += SoftmaxExp(value[j][k] - base);
      }
#pragma unroll
      for (int j = 0; j < kLongChunk; ++j) online.sum += sum[j];
    }
    C max = WarpRowMax(online.max);
    online.RaiseMax(max);
    C sum = WarpRowSum(online.sum);
    CombineWarps(max, sum, max_scratch[parity], sum_scratch[parity]);

    T* const out = y + (index * in.row_packs + threadIdx.x) * kPack;
    const SoftmaxOutput<C> output(max, sum, log);
    // What is not in shared memory first, while the L2 cache has it.
#pragma unroll 1
    for (int i = 0; i < chunks; ++i) {
      const int streamed = chunks - cached_chunks, chunk = i < streamed ? cached_chunks + i : i - streamed;
      row.Load(chunk, chunk < cached_chunks, slots, value);
#pragma unroll
      for (int j = 0; j < kLongChunk; ++j) {
#pragma unroll
        for (int k = 0; k < kPack; ++k) value[j][k] = output(value[j][k]);
      }
#pragma unroll
      for (int j = 0; j < kLongChunk; ++j) {
        const int at = Row::At(chunk, j);
        if (at < row.packs) StoreWords<kPack>(out + static_cast<int64_t>(at) * kPack, PackCompute<T, kPack>(value[j]));
      }
      if (chunk < cached_chunks) next.Fetch(chunk, slots);
    }
    commit_missing();
  }
}

}  // namespace cudaep::kernels
