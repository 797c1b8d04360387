// Normalisation of rows that the registers of a block, or of a cluster of blocks, can hold: each element is read once.
#pragma once

#include "device/cluster.h"
#include "kernels/common/copy_ring.cuh"
#include "kernels/common/moments.cuh"
#include "kernels/norm/layer_norm_input.cuh"

namespace cudaep::kernels {

// Where the calling thread's packs of a row are: kPacks of them, `step` apart, from `first` on. A row is cut into
// pieces of a warp (or of its threads, where those are fewer), the pieces of a cluster's blocks one behind the other.
template <int kPacks>
struct NormThread {
  int step, first, piece, left;  // `piece`: the first pack of the warp's piece; `left`: from `first` to the row's end
  unsigned lanes, part, parts;   // threads of a piece; the piece's number, of how many of the row

  __device__ __forceinline__ explicit NormThread(int row_packs) {
    lanes = device::Min(blockDim.x, 32u);
    const unsigned warps = blockDim.x / lanes;
    parts = warps * device::ClusterBlocks();
    part = device::ClusterRank() * warps + threadIdx.x / lanes;
    step = static_cast<int>(lanes);
    piece = static_cast<int>(part) * step * kPacks;
    first = piece + static_cast<int>(threadIdx.x % lanes);
    left = row_packs - first;
  }
  __device__ __forceinline__ bool Has(int j) const { return j * step < left; }
  // Elements of the thread's piece.
  __device__ __forceinline__ int PieceElems(int row_packs, int pack) const {
    return device::Min(device::Max(row_packs - piece, 0), step * kPacks) * pack;
  }
};

// The rows of a block on their way, in registers: one row.
template <class T, int kPack, int kPacks, bool kSkip>
class DirectRows {
 public:
  using Raw = RawPack<T, kPack>;
  __device__ __forceinline__ DirectRows(const NormThread<kPacks>& thread, int /*depth*/) : thread_(thread) {}

  __device__ __forceinline__ void Fetch(const T* x, const T* skip) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (!thread_.Has(j)) continue;
      const int64_t at = static_cast<int64_t>(thread_.first + j * thread_.step) * kPack;
      x_[j] = LoadRaw<kPack>(x + at);
      if constexpr (kSkip) skip_[j] = LoadRaw<kPack>(skip + at);
    }
  }
  __device__ __forceinline__ void TakeX(Raw (&raw)[kPacks]) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) raw[j] = x_[j];
  }
  __device__ __forceinline__ void TakeSkip(Raw (&raw)[kPacks]) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) raw[j] = skip_[j];
  }
  static __device__ __forceinline__ int Depth(int /*depth*/) { return 1; }

 private:
  const NormThread<kPacks>& thread_;
  Raw x_[kPacks] = {}, skip_[kSkip ? kPacks : 1] = {};
};

// The same in shared memory: `depth` rows.
template <class T, int kPack, int kPacks, bool kSkip>
class RingRows {
 public:
  using Raw = RawPack<T, kPack>;
  static constexpr int kTensors = kSkip ? 2 : 1;

  __device__ __forceinline__ RingRows(const NormThread<kPacks>& thread, int depth)
      : thread_(thread), ring_(Slots(depth), Barriers(), depth * kTensors) {}

  __device__ __forceinline__ void Fetch(const T* x, const T* skip) {
    const int64_t at = static_cast<int64_t>(thread_.piece) * kPack;
    const int packs = device::Min(thread_.left + static_cast<int>(threadIdx.x % 32), 32 * kPacks);
    ring_.Push(x + at, packs);
    if constexpr (kSkip) ring_.Push(skip + at, packs);
  }
  __device__ __forceinline__ void TakeX(Raw (&raw)[kPacks]) {
    ring_.Wait(cursor_);
    ring_.Read(cursor_, raw);
    ring_.Advance(cursor_);
  }
  __device__ __forceinline__ void TakeSkip(Raw (&raw)[kPacks]) { TakeX(raw); }
  static __device__ __forceinline__ int Depth(int depth) { return depth; }

 private:
  using Ring = CopyRing<Raw, kPacks, 32 * kPacks>;
  static __device__ __forceinline__ unsigned Warp() { return (threadIdx.y * blockDim.x + threadIdx.x) / 32; }
  static __device__ __forceinline__ Raw* Slots(int depth) {
    return device::DynamicShared<Raw>() + static_cast<int>(Warp()) * depth * kTensors * 32 * kPacks;
  }
  static __device__ __forceinline__ device::CopyBarrier* Barriers() {
    __shared__ device::CopyBarrier barriers[kNormThreads / 32][kNormSlots];
    return barriers[Warp()];
  }

  const NormThread<kPacks>& thread_;
  Ring ring_;
  typename Ring::Cursor cursor_;
};

// What a piece of a row leaves for the others.
template <class C>
struct alignas(4 * sizeof(C)) PartMoments {
  C count, mean, squares, unused;
};

// The moments of a row from those of its parts, at most kNormThreads / 32 of them and empty ones up to a multiple of 4.
template <class C>
__device__ __forceinline__ void MergeParts(const PartMoments<C>* part, unsigned parts, C inverse_elems, bool rms,
                                           C& mean, C& squares) {
  mean = 0;
  if (!rms) {
    const C base = part[0].mean;  // so that the mean of equal means is exact
    C sum = 0;
#pragma unroll 1
    for (unsigned i = 0; i < parts; i += 4) {
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) sum += part[i + k].count * (part[i + k].mean - base);
    }
    mean = base + sum * inverse_elems;
  }
  squares = 0;
#pragma unroll 1
  for (unsigned i = 0; i < parts; i += 4) {
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) {
      const PartMoments<C> p = part[i + k];
      squares += p.squares + p.count * (p.mean - mean) * (p.mean - mean);
    }
  }
}

// The same of a cluster's parts, by all lanes of a warp: 128 at most.
template <class C>
__device__ __forceinline__ void MergeClusterParts(const PartMoments<C>* part, unsigned parts, C inverse_elems, bool rms,
                                                  C& mean, C& squares) {
  constexpr int kOfLane = kNormThreads / 32 * kNormCluster / 32;
  C count[kOfLane], means[kOfLane], all[kOfLane];
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) {
    const unsigned index = threadIdx.x % 32 + i * 32;
    const PartMoments<C> p = index < parts ? part[index] : PartMoments<C>{};
    count[i] = p.count;
    means[i] = p.mean;
    all[i] = p.squares;
  }
  MergeMoments<kOfLane>(count, means, all, inverse_elems, 32, rms, mean, squares);
}

// Rows that their threads hold in registers, one after the other. One barrier a row, of the block or of the cluster,
// and none where a row belongs to one warp.
template <class T, class V, int kPack, int kPacks, bool kSkip, bool kCluster, class Rows>
__global__ void __launch_bounds__(kNormThreads)
    LayerNormRowsKernel(const __grid_constant__ LayerNormInput<T, V> in, const LayerNormOutput<T> out, int depth) {
  using C = ComputeType<T>;
  __shared__ PartMoments<C> part_of[2][kNormThreads / 32 * (kCluster ? kNormCluster : 1)];
  const NormThread<kPacks> thread(in.row_packs);
  const unsigned cluster = kCluster ? device::ClusterBlocks() : 1;
  const auto column_of = [&](int j) { return (thread.first + j * thread.step) * kPack; };

  RawPack<V, kPack> scale[kPacks] = {}, beta[kPacks] = {};
  RawPack<T, kPack> bias[kSkip ? kPacks : 1] = {};
  const auto load_affine = [&](int64_t row) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (!thread.Has(j)) continue;
      scale[j] = LoadScale<kPack>(in, row, column_of(j));
      beta[j] = LoadBeta<kPack>(in, row, column_of(j));
    }
  };
  const auto load_constants = [&] {
    load_affine(0);
    if constexpr (kSkip) {
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        if (in.bias != nullptr && thread.Has(j)) bias[j] = LoadRaw<kPack>(in.bias + column_of(j));
      }
    }
  };
  Rows rows(thread, depth);
  device::GridDependencyWait();
  load_constants();
  if constexpr (kCluster) device::ClusterBarrier();  // all of its blocks are there

  const int64_t stride = static_cast<int64_t>(gridDim.x / cluster) * blockDim.y;
  int64_t base = static_cast<int64_t>(blockIdx.x / cluster) * blockDim.y;
  const auto fetch = [&](int64_t from) {
    const int64_t row = from + threadIdx.y;
    if (row >= in.rows) return;
    rows.Fetch(in.x + row * in.elems,
               kSkip ? in.skip + (row < in.skip_rows ? row : row % in.skip_rows) * in.elems : nullptr);
  };
  int64_t next = base;
  for (int i = 0; i < Rows::Depth(depth); ++i, next += stride) fetch(next);

  if (!kCluster && threadIdx.y == 0 && threadIdx.x < 2 * (kNormThreads / 32)) {  // empty parts
    part_of[threadIdx.x % 2][threadIdx.x / 2] = {};
  }
  if (!kCluster && thread.parts > 1) __syncthreads();
  const int part_elems = thread.PieceElems(in.row_packs, kPack);
  const C part_count = static_cast<C>(device::Max(part_elems, 1));
  const C inverse_elems = C(1) / static_cast<C>(in.elems);
  const bool rms = in.centred(), whole = thread.Has(kPacks - 1);
  const auto clear_beyond = [&](RawPack<T, kPack>(&raw)[kPacks]) {
    if (whole) return;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (!thread.Has(j)) raw[j] = {};
    }
  };
  const bool by_row = (in.scale != nullptr && in.scale_map.rows > 1) || (in.beta != nullptr && in.beta_map.rows > 1);

#pragma unroll 1
  for (int parity = 0; base < in.rows; base += stride, next += stride, parity ^= 1) {
    const int64_t row = base + threadIdx.y;
    const bool active = row < in.rows;
    C value[kPacks][kPack] = {};
    if (active) {
      RawPack<T, kPack> raw[kPacks];
      rows.TakeX(raw);
      clear_beyond(raw);
#pragma unroll
      for (int j = 0; j < kPacks; ++j) UnpackCompute<T, kPack>(raw[j], value[j]);
      if constexpr (kSkip) {
        rows.TakeSkip(raw);
        clear_beyond(raw);
        KeepPacked(bias);
#pragma unroll
        for (int j = 0; j < kPacks; ++j) {
          C term[kPack];
          UnpackCompute<T, kPack>(raw[j], term);
#pragma unroll
          for (int k = 0; k < kPack; ++k) value[j][k] += term[k];
          if (in.bias != nullptr) {
            UnpackCompute<T, kPack>(bias[j], term);
#pragma unroll
            for (int k = 0; k < kPack; ++k) value[j][k] += term[k];
          }
          if (out.sum == nullptr || !thread.Has(j)) continue;
          StoreWords<kPack>(out.sum + row * in.elems + column_of(j), PackCompute<T, kPack>(value[j]));
        }
      }
    }
    fetch(next);

    // Around the mean of the warp's piece, then of the row.
    C mean = 0, squares = 0;
    if (!rms) {
      C sum[kPacks] = {};
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
#pragma unroll
        for (int j = 0; j < kPacks; ++j) sum[j] += value[j][k];
      }
#pragma unroll
      for (int j = 0; j < kPacks; ++j) mean += sum[j];
      // Divided, not multiplied by a rounded reciprocal: the mean of equal 16-bit elements, whose sum is exact, is
      // exact.
      mean = SumOfLanes(mean, thread.lanes) / part_count;
    }
    if (!whole) {  // what is beyond the row's end does not deviate
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
#pragma unroll
        for (int k = 0; k < kPack; ++k) value[j][k] = thread.Has(j) ? value[j][k] : mean;
      }
    }
    C pack_squares[kPacks] = {};
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
#pragma unroll
      for (int j = 0; j < kPacks; ++j) pack_squares[j] += (value[j][k] - mean) * (value[j][k] - mean);
    }
#pragma unroll
    for (int j = 0; j < kPacks; ++j) squares += pack_squares[j];
    squares = SumOfLanes(squares, thread.lanes);
    if (thread.parts > 1) {
      const unsigned lane = threadIdx.x % 32;
      PartMoments<C>* const part = part_of[parity];
      const PartMoments<C> own{static_cast<C>(part_elems), mean, squares, C(0)};
      if constexpr (kCluster) {
        if (lane < cluster) {
          device::StoreToCluster(&part[thread.part].count, lane, own.count);
          device::StoreToCluster(&part[thread.part].mean, lane, own.mean);
          device::StoreToCluster(&part[thread.part].squares, lane, own.squares);
        }
        device::ClusterBarrier();
        MergeClusterParts(part, thread.parts, inverse_elems, rms, mean, squares);
      } else {
        if (lane == 0) part[thread.part] = own;
        __syncthreads();
        MergeParts(part, thread.parts, inverse_elems, rms, mean, squares);
      }
    }
    if (!active) continue;
    const C inv_std = InverseOf<T>(in.statistic, squares, inverse_elems, static_cast<C>(in.epsilon));
    if (thread.first == 0) {
      WriteStatistic(in, out.mean, row, mean);
      WriteStatistic(in, out.inv_std, row, inv_std);
    }
    if (by_row) load_affine(row);
    V* const y = static_cast<V*>(out.y) + row * in.elems + column_of(0);
    KeepPacked(scale);
    KeepPacked(beta);
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      ComputeType<V> factor[kPack], term[kPack];
      UnpackCompute<V, kPack>(scale[j], factor);
      UnpackCompute<V, kPack>(beta[j], term);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        term[k] = static_cast<ComputeType<V>>((value[j][k] - mean) * inv_std * factor[k] + term[k]);
      }
      const RawPack<V, kPack> words = PackCompute<V, kPack>(term);
      if (thread.Has(j)) StoreWords<kPack>(y + j * thread.step * kPack, words);
    }
  }
}

}  // namespace cudaep::kernels
