// Softmax of long rows: each row's maximum and sum while it arrives, then what they turn it into.
#pragma once

#include "kernels/common/long_rows.cuh"
#include "kernels/softmax/softmax_input.cuh"

namespace cudaep::kernels {

// The chunks of a row as one thread sees them.
template <class T, int kPack, class Piece, int kChunk, bool kBias>
struct SoftmaxLongRow {
  using C = ComputeType<T>;
  using Raw = RawPack<T, kPack>;
  Piece piece;
  const T* bias;  // if there is one, from the thread's first pack
  T* y;           // likewise

  __device__ __forceinline__ SoftmaxLongRow(const SoftmaxInput<T>& in, T* out, int64_t row) : piece(in.row_packs) {
    bias = !kBias ? nullptr : in.bias + in.template BiasOffset<kPack>(row) + piece.first * kPack;
    y = out + (row * in.row_packs + piece.first) * kPack;
  }

  __device__ __forceinline__ int64_t Offset(int chunk) const {
    return static_cast<int64_t>(chunk) * piece.stride * kPack;
  }

  // What is beyond the row's end then changes neither maximum nor sum.
  __device__ __forceinline__ void FillBeyond(int chunk, Raw (&raw)[kChunk]) const {
    const int left = piece.Left(chunk);
    if (piece.IsWhole(left)) return;
#pragma unroll
    for (int j = 0; j < kChunk; ++j) {
      if (j * 32 >= left) raw[j] = FilledRaw<T, kPack>(NegativeInfinity<C>());
    }
  }
  __device__ __forceinline__ void Compute(int chunk, const Raw (&raw)[kChunk], C (&value)[kChunk][kPack]) const {
#pragma unroll
    for (int j = 0; j < kChunk; ++j) UnpackCompute<T, kPack>(raw[j], value[j]);
    if (!kBias) return;
    const int left = piece.Left(chunk);
#pragma unroll
    for (int j = 0; j < kChunk; ++j) {
      if (j * 32 < left) AddPack<kPack>(bias + Offset(chunk) + j * 32 * kPack, value[j]);
    }
  }

  __device__ __forceinline__ void Add(int chunk, Raw (&raw)[kChunk], OnlineSum<C>& online) const {
    FillBeyond(chunk, raw);
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
    piece.ForPacks(piece.Left(chunk),
                   [&](int j) { StoreWords<kPack>(to + j * 32 * kPack, PackCompute<T, kPack>(value[j])); });
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
  using Rows = LongRows<T, kPack, kThreads>;
  using Row = SoftmaxLongRow<T, kPack, typename Rows::Piece, kLongChunk, kBias>;
  __shared__ C max_scratch[2][kThreads / 32];
  __shared__ C sum_scratch[2][kThreads / 32];
  __shared__ typename Rows::Barriers barriers;
  Rows rows(in.x, in.rows, in.row_packs, slots, barriers);
  device::GridDependencyWait();
  rows.Begin();
  int parity = 0;
  for (int64_t index = rows.first(); index < in.rows; index += rows.stride(), parity ^= 1) {
    const Row row(in, y, index);
    OnlineSum<C> online;
    rows.Read([&](int chunk, typename Rows::Chunk& raw) { row.Add(chunk, raw, online); });
    CombineThreads(online, max_scratch[parity], sum_scratch[parity]);
    const SoftmaxOutput<C> output(online.max, online.sum, log);
    rows.Write([](int) {}, [&](int chunk, const typename Rows::Chunk& raw) { row.Write(chunk, raw, output); });
  }
}

// Rows that cannot be read in packs: twice from device memory or the L2 cache.
template <class T, bool kBias>
__global__ void __launch_bounds__(kLongThreads) SoftmaxUnpackedKernel(SoftmaxInput<T> in, T* y, bool log, int) {
  constexpr int kChunk = 4;
  using C = ComputeType<T>;
  using Piece = LongPiece<kLongThreads, kChunk>;
  using Row = SoftmaxLongRow<T, 1, Piece, kChunk, kBias>;
  __shared__ C max_scratch[2][kLongThreads / 32];
  __shared__ C sum_scratch[2][kLongThreads / 32];
  device::GridDependencyWait();
  int parity = 0;
  for (int64_t index = blockIdx.x; index < in.rows; index += gridDim.x, parity ^= 1) {
    const Row row(in, y, index);
    const T* const x = in.x + (row.y - y);
    typename Row::Raw raw[kChunk];
    const auto load = [&](int chunk) {
      Piece::ForPacks(row.piece.Left(chunk), [&](int j) { raw[j] = LoadRaw<1>(x + row.Offset(chunk) + j * 32); });
    };
    OnlineSum<C> online;
    const int chunks = row.piece.Chunks();
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
