// Normalisation of long rows, by the schedule of kernels/common/long_rows.cuh: each row's moments while it arrives,
// then the normalised row. A scale and a shift for each column come from the L2 cache for every row.
#pragma once

#include "kernels/common/long_rows.cuh"
#include "kernels/norm/layer_norm_input.cuh"
#include "kernels/norm/layer_norm_moments.cuh"

namespace cudaep::kernels {

// Scale and shift of the packs of a chunk. With kColumns there is a scale for each column, and perhaps a shift, kept as
// they are in memory; without, a scale and a shift for each pack, or neither.
template <class V, int kPack, int kPacks, bool kColumns>
struct ChunkAffine {
  using C = ComputeType<V>;
  RawPack<V, kPack> scale[kPacks] = {}, beta[kPacks] = {};

  template <class T>
  __device__ __forceinline__ void Fetch(const LayerNormInput<T, V>&, const AffineRows<V>& rows, int left, int first) {
    const int64_t column = static_cast<int64_t>(first) * kPack;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (j * 32 >= left) continue;
      scale[j] = LoadRaw<kPack>(rows.scale + column + j * 32 * kPack);
      if (rows.beta != nullptr) beta[j] = LoadRaw<kPack>(rows.beta + column + j * 32 * kPack);
    }
  }
  __device__ __forceinline__ void Keep() {
    KeepPacked(scale);
    KeepPacked(beta);
  }
  __device__ __forceinline__ void Unpack(int j, PackAffine<kPack, V>& by) const {
    UnpackCompute<V, kPack>(scale[j], by.factor);
    UnpackCompute<V, kPack>(beta[j], by.term);
  }
};
template <class V, int kPack, int kPacks>
struct ChunkAffine<V, kPack, kPacks, false> {
  using C = ComputeType<V>;
  C scale[kPacks] = {}, beta[kPacks] = {};

  template <class T>
  __device__ __forceinline__ void Fetch(const LayerNormInput<T, V>& in, const AffineRows<V>& rows, int left,
                                        int first) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const bool any = rows.scale != nullptr && j * 32 < left;
      scale[j] = any ? ChannelOf<kPack>(in.scale, rows.scale, (first + j * 32) * kPack) : C(1);
      beta[j] = any && rows.beta != nullptr ? ChannelOf<kPack>(in.beta, rows.beta, (first + j * 32) * kPack) : C(0);
    }
  }
  __device__ __forceinline__ void Keep() {}
  __device__ __forceinline__ void Unpack(int j, PackAffine<kPack, V>& by) const {
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      by.factor[k] = scale[j];
      by.term[k] = beta[j];
    }
  }
};

// Dynamic shared memory: the ring, then LongPartBytes.
template <class T, int kPack, bool kColumns>
__global__ void __launch_bounds__(kLongThreads)
    LayerNormLongKernel(const __grid_constant__ LayerNormInput<T, T> in, const LayerNormOutput<T> out, int slots) {
  using C = ComputeType<T>;
  using Rows = LongRows<T, kPack, kLongThreads, kNormHeld, true>;
  using Piece = typename Rows::Piece;
  constexpr int kPacks = kLongChunk;
  constexpr unsigned kWarps = kLongThreads / 32;
  __shared__ typename Rows::Barriers barriers;
  Rows rows(in.x, in.rows, in.row_packs, slots, barriers);
  const Piece& piece = rows.piece();
  const unsigned cluster = device::ClusterBlocks(), parts = kWarps * cluster, lane = threadIdx.x % 32;
  const unsigned own_part = device::ClusterRank() * kWarps + threadIdx.x / 32;
  auto* const part_of = reinterpret_cast<PartMoments<C>*>(device::DynamicShared<typename Rows::Raw>() +
                                                          slots * static_cast<int>(kLongThreads) * kLongChunk);
  device::GridDependencyWait();
  if (cluster > 1) device::ClusterMeeting();  // all of its blocks are there
  rows.Begin();

  const C part_count = static_cast<C>(piece.WarpPacks() * kPack);
  const C inverse_part = C(1) / device::Max(part_count, C(1));
  const bool centred = in.centred();
  unsigned parity = 0;
#pragma unroll 1
  for (int64_t row = rows.first(); row < in.rows; row += rows.stride(), parity ^= 1) {
    Moments<C> moments;
    rows.Read([&](int chunk, const typename Rows::Chunk& raw) {
      const int packs = piece.Left(chunk);
      C value[kPacks][kPack];
#pragma unroll
      for (int j = 0; j < kPacks; ++j) UnpackCompute<T, kPack>(raw[j], value[j]);
      if (Piece::IsWhole(packs)) {
        constexpr int kElems = kPacks * kPack;
        const C total = moments.count + C(kElems);
        moments.Merge(Moments<C>::template Of<kElems>(value[0], centred), total, RoughQuotient(C(kElems), total));
        return;
      }
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        if (j * 32 < packs) moments.template Add<kPack>(value[j], centred);
      }
    });

    // Of the warp, then of the row.
    C mean, squares;
    MergeMoments<1>({moments.count}, {moments.mean}, {moments.squares}, inverse_part, 32, centred, mean, squares);
    PartMoments<C>* const part = part_of + parity * parts;
    ShareParts(&part[own_part], cluster, {part_count, mean, squares, C(0)});
    BlocksBarrier(cluster);
    MergeClusterParts(part, parts, in.inverse_elems, centred, mean, squares);
    const C inv_std = InverseOf<T>(in.statistic, squares, in.inverse_elems, in.epsilon);
    if (own_part == 0 && lane == 0) {
      WriteStatistic(in, out.mean, row, mean);
      WriteStatistic(in, out.inv_std, row, inv_std);
    }

    const AffineRows<T> affine(in, row);
    ChunkAffine<T, kPack, kPacks, kColumns> chunk_affine;
    const auto fetch = [&](int chunk) {
      chunk_affine.Fetch(in, affine, piece.Left(chunk), piece.first + chunk * piece.stride);
    };
    rows.Write(fetch, [&](int chunk, const typename Rows::Chunk& raw) {
      typename Rows::Chunk result;
      chunk_affine.Keep();
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        PackAffine<kPack, T> by;
        chunk_affine.Unpack(j, by);
        C value[kPack];
        UnpackCompute<T, kPack>(raw[j], value);
        result[j] = by.Apply(value, mean, inv_std);
      }
      const int packs = piece.Left(chunk);
      const int64_t column = static_cast<int64_t>(piece.first + chunk * piece.stride) * kPack;
      T* const to = static_cast<T*>(out.y) + row * in.elems + column;
      Piece::ForPacks(packs, [&](int j) { StoreWords<kPack>(to + j * 32 * kPack, result[j]); });
    });
  }
}

}  // namespace cudaep::kernels
