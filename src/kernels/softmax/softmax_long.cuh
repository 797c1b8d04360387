// Softmax of long rows, one at a time for each block of a grid that covers the device once.
//
// A row is cut into chunks, each warp having a piece of every chunk. Its first kLongHeld chunks stay in registers while
// it is worked on, the last ones in the slots of a ring in shared memory, and those between, of rows too long for both,
// are read twice, the second time from the L2 cache. As soon as a slot is free, what comes next is on its way to it:
// the rest of the row, then the block's next row, whose first chunks so arrive while this one is summed and written.
#pragma once

#include "kernels/common/copy_ring.cuh"
#include "kernels/softmax/softmax_input.cuh"

namespace cudaep::kernels {

// The chunks of a row as one thread sees them: kChunk packs, 32 apart.
template <class T, int kPack, int kThreads, int kChunk, bool kBias>
struct LongRow {
  using C = ComputeType<T>;
  using Raw = RawPack<T, kPack>;
  static constexpr int kChunkPacks = kThreads * kChunk, kPiecePacks = 32 * kChunk;
  const T* bias;  // if there is one, from the thread's first pack
  T* y;           // likewise
  int packs;      // from there to the row's end

  // Packs of the row before the calling warp's piece of the first chunk.
  static __device__ __forceinline__ int First() { return static_cast<int>(threadIdx.x / 32) * kPiecePacks; }

  __device__ __forceinline__ LongRow(const SoftmaxInput<T>& in, T* out, int64_t row) {
    const int first = First() + static_cast<int>(threadIdx.x % 32);
    bias = !kBias ? nullptr : in.bias + in.template BiasOffset<kPack>(row) + first * kPack;
    y = out + (row * in.row_packs + first) * kPack;
    packs = in.row_packs - first;
  }

  // Packs from the thread's first of a chunk to the row's end.
  __device__ __forceinline__ int Left(int chunk) const { return packs - chunk * kChunkPacks; }
  static __device__ __forceinline__ int64_t Offset(int chunk) {
    return static_cast<int64_t>(chunk) * kChunkPacks * kPack;
  }

  // Calls function(j) for each pack j of a chunk that is in the row; one branch for the chunks that are whole.
  template <class Function>
  static __device__ __forceinline__ void ForPacks(int left, Function function) {
    if (left > (kChunk - 1) * 32) {
#pragma unroll
      for (int j = 0; j < kChunk; ++j) function(j);
    } else {
#pragma unroll
      for (int j = 0; j < kChunk; ++j) {
        if (j * 32 < left) function(j);
      }
    }
  }

  // What is beyond the row's end then changes neither maximum nor sum.
  __device__ __forceinline__ void FillBeyond(int chunk, Raw (&raw)[kChunk]) const {
    const int left = Left(chunk);
    if (left > (kChunk - 1) * 32) return;
#pragma unroll
    for (int j = 0; j < kChunk; ++j) {
      if (j * 32 >= left) raw[j] = FilledRaw<T, kPack>(NegativeInfinity<C>());
    }
  }
  __device__ __forceinline__ void Compute(int chunk, const Raw (&raw)[kChunk], C (&value)[kChunk][kPack]) const {
#pragma unroll
    for (int j = 0; j < kChunk; ++j) UnpackCompute<T, kPack>(raw[j], value[j]);
    if (!kBias) return;
    const int left = Left(chunk);
#pragma unroll
    for (int j = 0; j < kChunk; ++j) {
      if (j * 32 < left) AddPack<kPack>(bias + Offset(chunk) + j * 32 * kPack, value[j]);
    }
  }

  __device__ __forceinline__ void Add(int chunk, const Raw (&raw)[kChunk], OnlineSum<C>& online) const {
    C value[kChunk][kPack];
    Compute(chunk, raw, value);
    const C max = !kBias ? MaxOfRaw<T, kChunk, kPack>(raw, value) : MaxOf<kChunk>(value);
    online.template Add<T>(max, value);
  }
  __device__ __forceinline__ void Write(int chunk, const Raw (&raw)[kChunk], const SoftmaxOutput<C>& output) const {
    C value[kChunk][kPack];
    Compute(chunk, raw, value);
    output.template Apply<T>(value);
    T* const to = y + Offset(chunk);
    ForPacks(Left(chunk), [&](int j) { StoreWords<kPack>(to + j * 32 * kPack, PackCompute<T, kPack>(value[j])); });
  }
};

// The row's maximum and sum from those of a thread.
template <int kWarps, class C>
__device__ __forceinline__ void CombineThreads(OnlineSum<C>& online, C (&max_scratch)[kWarps],
                                               C (&sum_scratch)[kWarps]) {
  online.RaiseMax(WarpRowMax(online.max));
  online.sum = WarpRowSum(online.sum);
  CombineWarps(online.max, online.sum, max_scratch, sum_scratch);
}

template <class T, int kPack, int kThreads, bool kBias>
__global__ void __launch_bounds__(kThreads, kLongThreads / kThreads)
    SoftmaxLongKernel(SoftmaxInput<T> in, T* y, bool log, int slots) {
  using C = ComputeType<T>;
  using Row = LongRow<T, kPack, kThreads, kLongChunk, kBias>;
  using Raw = typename Row::Raw;
  using Ring = CopyRing<Raw, kLongChunk, Row::kChunkPacks>;
  __shared__ C max_scratch[2][kThreads / 32];
  __shared__ C sum_scratch[2][kThreads / 32];
  __shared__ device::CopyBarrier barriers[kThreads / 32][kLongSlots];
  Ring ring(device::DynamicShared<Raw>() + Row::First(), barriers[threadIdx.x / 32], slots);
  device::GridDependencyWait();

  // A row's chunks up to `kept` leave their slots when they are summed; of these, those that are not held come again.
  const int chunks = device::Max((in.row_packs + Row::kChunkPacks - 1) / Row::kChunkPacks, kLongHeld);
  const int kept = chunks - kLongHeld <= slots ? kLongHeld : chunks - (slots - (slots + 3) / 4);
  const int steps = chunks + kept - kLongHeld;
  const auto chunk_of = [&](int step) { return step < chunks ? step : step - chunks + kLongHeld; };
  int64_t next_row = blockIdx.x;
  int next_step = 0;
  const auto push_next = [&] {
    if (next_row >= in.rows) return;
    const int at = chunk_of(next_step) * Row::kChunkPacks + Row::First();
    ring.Push(in.x + (next_row * in.row_packs + at) * kPack, device::Min(in.row_packs - at, Row::kPiecePacks));
    if (++next_step < steps) return;
    next_step = 0;
    next_row += gridDim.x;
  };
  for (int i = 0; i < slots; ++i) push_next();

  Raw held[kLongHeld][kLongChunk], raw[kLongChunk];
  typename Ring::Cursor cursor;
  int parity = 0;
  for (int64_t index = blockIdx.x; index < in.rows; index += gridDim.x, parity ^= 1) {
    const Row row(in, y, index);
    OnlineSum<C> online;
    const auto add = [&](int chunk, Raw(&to)[kLongChunk], const typename Ring::Cursor& from) {
      ring.Wait(from);
      ring.Read(from, to);
      row.FillBeyond(chunk, to);
      row.Add(chunk, to, online);
    };
#pragma unroll
    for (int chunk = 0; chunk < kLongHeld; ++chunk) {
      add(chunk, held[chunk], cursor);
      push_next();
      ring.Advance(cursor);
    }
#pragma unroll 1
    for (int chunk = kLongHeld; chunk < kept; ++chunk) {
      add(chunk, raw, cursor);
      push_next();
      ring.Advance(cursor);
    }
    auto ahead = cursor;
#pragma unroll 1
    for (int chunk = kept; chunk < chunks; ++chunk) {
      add(chunk, raw, ahead);
      ring.Advance(ahead);
    }
    CombineThreads(online, max_scratch[parity], sum_scratch[parity]);
    for (auto& chunk : held) KeepPacked(chunk);

    const SoftmaxOutput<C> output(online.max, online.sum, log);
#pragma unroll 1
    for (int step = kept; step < steps; ++step) {
      if (step >= chunks) ring.Wait(cursor);
      ring.Read(cursor, raw);
      row.Write(chunk_of(step), raw, output);
      push_next();
      ring.Advance(cursor);
    }
#pragma unroll
    for (int chunk = 0; chunk < kLongHeld; ++chunk) row.Write(chunk, held[chunk], output);
  }
}

// Rows that cannot be read in packs: twice from device memory or the L2 cache.
template <class T, bool kBias>
__global__ void __launch_bounds__(kLongThreads) SoftmaxUnpackedKernel(SoftmaxInput<T> in, T* y, bool log, int) {
  constexpr int kChunk = 4;
  using C = ComputeType<T>;
  using Row = LongRow<T, 1, kLongThreads, kChunk, kBias>;
  __shared__ C max_scratch[2][kLongThreads / 32];
  __shared__ C sum_scratch[2][kLongThreads / 32];
  device::GridDependencyWait();
  int parity = 0;
  for (int64_t index = blockIdx.x; index < in.rows; index += gridDim.x, parity ^= 1) {
    const Row row(in, y, index);
    const T* const x = in.x + (row.y - y);
    typename Row::Raw raw[kChunk];
    const auto load = [&](int chunk) {
      Row::ForPacks(row.Left(chunk), [&](int j) { raw[j] = LoadRaw<1>(x + Row::Offset(chunk) + j * 32); });
      row.FillBeyond(chunk, raw);
    };
    OnlineSum<C> online;
    const int chunks = (in.row_packs + Row::kChunkPacks - 1) / Row::kChunkPacks;
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; ++chunk) {
      load(chunk);
      row.Add(chunk, raw, online);
    }
    CombineThreads(online, max_scratch[parity], sum_scratch[parity]);
    const SoftmaxOutput<C> output(online.max, online.sum, log);
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; ++chunk) {
      load(chunk);
      row.Write(chunk, raw, output);
    }
  }
}

}  // namespace cudaep::kernels
