// Normalisation of long rows, by the schedule of kernels/common/long_rows.cuh: each row's moments while it arrives,
// then the normalised row.
//
// A scale and a shift for each column are twice what there is of x, and every row reads them from the L2 cache: more
// than that cache yields at the rate of device memory. So rows that share them go together, part of each with one
// block of a cluster, which then fetches its part of both once for all of them.
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

// raw[index], from registers, which have no address: by selection.
template <int kPacks, size_t kBytes>
__device__ __forceinline__ PackWords<kBytes> PackOf(const PackWords<kBytes>* raw, int index) {
  PackWords<kBytes> pack = raw[0];
#pragma unroll
  for (int j = 1; j < kPacks; ++j) {
#pragma unroll
    for (size_t w = 0; w < kBytes / 4; ++w) pack.word[w] = j == index ? raw[j].word[w] : pack.word[w];
  }
  return pack;
}

// kTogether > 1: rows that share a scale for each column. Dynamic shared memory: the ring, then LongPartBytes.
template <class T, int kPack, int kTogether, bool kColumns>
__global__ void __launch_bounds__(kLongThreads)
    LayerNormLongKernel(const __grid_constant__ LayerNormInput<T, T> in, const LayerNormOutput<T> out, int slots) {
  using C = ComputeType<T>;
  using Rows = LongRows<T, kPack, kLongThreads, LongHeldChunks(kTogether), kTogether, true>;
  using Piece = typename Rows::Piece;
  constexpr int kPacks = kLongChunk / kTogether;
  constexpr unsigned kWarps = kLongThreads / 32;
  __shared__ typename Rows::Barriers barriers;
  Rows rows(in.x, in.rows, in.row_packs, slots, barriers);
  const Piece& piece = rows.piece();
  const unsigned cluster = device::ClusterBlocks(), parts = kWarps * cluster, lane = threadIdx.x % 32;
  const unsigned own_part = device::ClusterRank() * kWarps + threadIdx.x / 32;
  auto* const part_of = reinterpret_cast<PartMoments<C>*>(device::DynamicShared<typename Rows::Raw>() +
                                                          slots * static_cast<int>(kLongThreads) * kLongChunk);
  device::GridDependencyWait();
  if (cluster > 1) device::ClusterBarrier();  // all of its blocks are there
  rows.Begin();

  const C part_count = static_cast<C>(piece.WarpPacks() * kPack);
  const C inverse_part = C(1) / device::Max(part_count, C(1));
  const bool centred = in.centred();
  unsigned parity = 0;
#pragma unroll 1
  for (int64_t row = rows.first(); row < in.rows; row += rows.stride(), parity ^= 1) {
    Moments<C> moments[kTogether];
    rows.Read([&](int chunk, const typename Rows::Chunk& raw) {
      const int packs = piece.Left(chunk);
      if (Piece::IsWhole(packs)) {
        C value[kLongChunk][kPack];
#pragma unroll
        for (int j = 0; j < kLongChunk; ++j) UnpackCompute<T, kPack>(raw[j], value[j]);
        constexpr int kElems = kPacks * kPack;
        const C total = moments[0].count + C(kElems), share = RoughQuotient(C(kElems), total);
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
          moments[i].Merge(Moments<C>::template Of<kElems>(value[i * kPacks], centred), total, share);
        }
        return;
      }
#pragma unroll 1
      for (int j = 0; j * 32 < packs; ++j) {
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
          C value[kPack];
          UnpackCompute<T, kPack>(PackOf<kPacks>(&raw[i * kPacks], j), value);
          moments[i].template Add<kPack>(value, centred);
        }
      }
    });

    // Of the warp, then of the row.
    C mean[kTogether], inv_std[kTogether];
    PartMoments<C>* const part = part_of + parity * kTogether * parts;
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      C squares;
      MergeMoments<1>({moments[i].count}, {moments[i].mean}, {moments[i].squares}, inverse_part, 32, centred, mean[i],
                      squares);
      ShareParts(&part[i * parts + own_part], cluster, {part_count, mean[i], squares, C(0)});
    }
    BlocksBarrier(cluster);
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      C squares;
      MergeClusterParts(part + i * parts, parts, in.inverse_elems, centred, mean[i], squares);
      inv_std[i] = InverseOf<T>(in.statistic, squares, in.inverse_elems, in.epsilon);
      if (own_part != 0 || lane != 0 || row + i >= in.rows) continue;
      WriteStatistic(in, out.mean, row + i, mean[i]);
      WriteStatistic(in, out.inv_std, row + i, inv_std[i]);
    }

    const AffineRows<T> affine(in, row);
    const int rows_left = static_cast<int>(device::Min<int64_t>(in.rows - row, kTogether));
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
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
          C value[kPack];
          UnpackCompute<T, kPack>(raw[i * kPacks + j], value);
          result[i * kPacks + j] = by.Apply(value, mean[i], inv_std[i]);
        }
      }
      const int packs = piece.Left(chunk);
      const int64_t column = static_cast<int64_t>(piece.first + chunk * piece.stride) * kPack;
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        T* const to = static_cast<T*>(out.y) + (row + i) * in.elems + column;
        Piece::ForPacks(i < rows_left ? packs : 0,
                        [&](int j) { StoreWords<kPack>(to + j * 32 * kPack, result[i * kPacks + j]); });
      }
    });
  }
}

}  // namespace cudaep::kernels
