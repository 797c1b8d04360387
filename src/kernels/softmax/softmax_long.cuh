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

// The pointer, which the compiler then keeps instead of computing it anew at each use.
template <class T>
__device__ __forceinline__ T* Keep(T* pointer) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+l"(pointer));
  __builtin_assume(__isGlobal(pointer));
#endif
  return pointer;
}

// A row as one thread of a block of kThreads sees it.
template <class T, int kPack, int kThreads>
struct LongRow {
  using C = ComputeType<T>;
  using Raw = RawPack<T, kPack>;
  static constexpr int kChunkPacks = kThreads * kLongChunk;
  const T* x;     // of the thread's first pack, like bias
  const T* bias;  // or null
  int packs;      // from the thread's first pack to the row's end

  __device__ __forceinline__ LongRow(const SoftmaxInput<T>& in, int64_t row)
      : x(Keep(in.x + (row * in.row_packs + threadIdx.x) * kPack)),
        bias(in.bias == nullptr ? nullptr : in.bias + in.template BiasOffset<kPack>(row) + threadIdx.x * kPack),
        packs(row < in.rows ? in.row_packs - static_cast<int>(threadIdx.x) : 0) {}

  // Packs from the thread's first of a chunk to the row's end.
  __device__ __forceinline__ int Left(int chunk) const { return packs - chunk * kChunkPacks; }
  __device__ __forceinline__ const T* X(int chunk) const {
    return x + static_cast<int64_t>(chunk) * kChunkPacks * kPack;
  }

  // Calls function(j) for each pack j of a chunk that is in the row; one branch for the chunks that are whole.
  template <class Function>
  static __device__ __forceinline__ void ForPacks(int left, Function function) {
    if (left > (kLongChunk - 1) * kThreads) {
#pragma unroll
      for (int j = 0; j < kLongChunk; ++j) function(j);
    } else {
#pragma unroll
      for (int j = 0; j < kLongChunk; ++j) {
        if (j * kThreads < left) function(j);
      }
    }
  }

  __device__ __forceinline__ void Fetch(int chunk, Raw* slots) const {
    const T* const from = Keep(X(chunk));
    Raw* const to = slots + chunk * kChunkPacks;
    ForPacks(Left(chunk), [&](int j) { CopyToShared<kPack>(to + j * kThreads, from + j * kThreads * kPack); });
    CommitCopies();
  }

  // From device memory. What is beyond the row's end changes neither maximum nor sum.
  __device__ __forceinline__ void Load(int chunk, Raw (&raw)[kLongChunk]) const {
    const T* const from = X(chunk);
    ForPacks(Left(chunk), [&](int j) { raw[j] = LoadRaw<kPack>(from + j * kThreads * kPack); });
    FillBeyond(chunk, raw);
  }
  __device__ __forceinline__ void LoadCached(int chunk, const Raw* slots, Raw (&raw)[kLongChunk]) const {
#pragma unroll
    for (int j = 0; j < kLongChunk; ++j) raw[j] = slots[chunk * kChunkPacks + j * kThreads];
    FillBeyond(chunk, raw);
  }
  __device__ __forceinline__ void FillBeyond(int chunk, Raw (&raw)[kLongChunk]) const {
    const int left = Left(chunk);
    if (left > (kLongChunk - 1) * kThreads) return;
#pragma unroll
    for (int j = 0; j < kLongChunk; ++j) {
      if (j * kThreads >= left) raw[j] = FilledRaw<T, kPack>(NegativeInfinity<C>());
    }
  }

  __device__ __forceinline__ void Compute(int chunk, const Raw (&raw)[kLongChunk], C (*value)[kPack]) const {
#pragma unroll
    for (int j = 0; j < kLongChunk; ++j) UnpackCompute<T, kPack>(raw[j], value[j]);
    if (bias == nullptr) return;
    const int left = Left(chunk);
    const T* const from = bias + static_cast<int64_t>(chunk) * kChunkPacks * kPack;
#pragma unroll
    for (int j = 0; j < kLongChunk; ++j) {
      if (j * kThreads < left) AddPack<kPack>(from + j * kThreads * kPack, value[j]);
    }
  }
};

template <class T, int kPack, int kThreads>
__global__ void __launch_bounds__(kThreads) SoftmaxLongKernel(SoftmaxInput<T> in, T* y, bool log, int cached_chunks) {
  using C = ComputeType<T>;
  using Row = LongRow<T, kPack, kThreads>;
  __shared__ C max_scratch[2][kMaxRowWarps];
  __shared__ C sum_scratch[2][kMaxRowWarps];
  auto* const slots = device::DynamicShared<RawPack<T, kPack>>() + threadIdx.x;
  device::GridDependencyWait();
  const int chunks = (in.row_packs + Row::kChunkPacks - 1) / Row::kChunkPacks;
  // As many groups of copies as there can be, some of them empty, so that the wait below is for a constant.
  const auto commit_missing = [&] {
    for (int chunk = cached_chunks; chunk < kLongCachedChunks; ++chunk) CommitCopies();
  };
  using Raw = RawPack<T, kPack>;
  Row row(in, blockIdx.x);
  for (int chunk = 0; chunk < cached_chunks; ++chunk) row.Fetch(chunk, slots);
  commit_missing();

  Raw raw[kLongChunk];
  C value[kLongChunk][kPack];
  int parity = 0;
  for (int64_t index = blockIdx.x; index < in.rows; index += gridDim.x, parity ^= 1) {
    const Row next(in, index + gridDim.x);
    OnlineSum<C> online;
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; ++chunk) {
      if (chunk < cached_chunks) {
        WaitForOldestCopies<kLongCachedChunks - 1>();
        CommitCopies();
        row.LoadCached(chunk, slots, raw);
      } else {
        row.Load(chunk, raw);
      }
      row.Compute(chunk, raw, value);
      const C max = row.bias == nullptr ? MaxOfRaw<T, kLongChunk, kPack>(raw, value) : MaxOf<kLongChunk>(value);
      online.template Add<T>(max, value);
    }
    C max = WarpRowMax(online.max);
    online.RaiseMax(max);
    C sum = WarpRowSum(online.sum);
    CombineWarps(max, sum, max_scratch[parity], sum_scratch[parity]);

    T* const out = y + (index * in.row_packs + threadIdx.x) * kPack;
    const SoftmaxOutput<C> output(max, sum, log);
    // What is not cached before the rest, while the L2 cache has it.
    const int streamed = chunks - cached_chunks;
#pragma unroll 1
    for (int i = 0; i < chunks; ++i) {
      const int chunk = i < streamed ? cached_chunks + i : i - streamed;
      if (chunk < cached_chunks) {
        row.LoadCached(chunk, slots, raw);
      } else {
        row.Load(chunk, raw);
      }
      row.Compute(chunk, raw, value);
      output.template Apply<T>(value);
      T* const to = Keep(out + static_cast<int64_t>(chunk) * Row::kChunkPacks * kPack);
      Row::ForPacks(row.Left(chunk),
                    [&](int j) { StoreWords<kPack>(to + j * kThreads * kPack, PackCompute<T, kPack>(value[j])); });
      if (chunk < cached_chunks) next.Fetch(chunk, slots);
    }
    commit_missing();
    row = next;
  }
}

}  // namespace cudaep::kernels
