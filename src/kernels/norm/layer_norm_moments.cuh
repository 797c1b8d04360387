// Mean and sum of squared deviations of a row that several threads hold in registers: of the piece of a warp, then of
// the row. Rows of equal elements have exactly that mean and no deviation.
#pragma once

#include "device/cluster.h"
#include "kernels/common/moments.cuh"
#include "kernels/norm/norm_plan.h"

namespace cudaep::kernels {

// Of a piece that `lanes` threads (a power of two) hold, kPacks packs each, of which a thread has those with has(j);
// `piece_packs` together, from the first thread on. What is beyond the row's end becomes the mean. `centred`: around 0.
template <int kPacks, int kPack, class C, class Has>
__device__ __forceinline__ void PieceMoments(C (&value)[kPacks][kPack], const Has& has, int piece_packs, unsigned lanes,
                                             bool centred, C& mean, C& squares) {
  const bool whole = piece_packs == kPacks * static_cast<int>(lanes);
  mean = 0;
  if (!centred && whole) {
    // 2^n elements: the inverse is exact.
    const C inverse = C(1) / static_cast<C>(static_cast<unsigned>(kPacks * kPack) * lanes);
    mean = SumOfLanes(PairwiseSum<kPacks * kPack>(value[0]), lanes) * inverse;
  } else if (!centred) {
    const C base = __shfl_sync(device::kFullWarp, value[0][0], 0, static_cast<int>(lanes));
    C sum = 0;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) sum += has(j) ? value[j][k] - base : C(0);
    }
    mean = base + SumOfLanes(sum, lanes) / static_cast<C>(device::Max(piece_packs * kPack, 1));
  }
  if (!whole) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) value[j][k] = has(j) ? value[j][k] : mean;
    }
  }
  C pack_squares[kPacks] = {};
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) pack_squares[j] += (value[j][k] - mean) * (value[j][k] - mean);
  }
  squares = SumOfLanes(PairwiseSum<kPacks>(pack_squares), lanes);
}

// What a piece of a row leaves for the others.
template <class C>
struct alignas(4 * sizeof(C)) PartMoments {
  C count, mean, squares, unused;
};

// The moments of a row from those of its parts, of which there are a multiple of 4, empty ones among them.
template <class C>
__device__ __forceinline__ void MergeParts(const PartMoments<C>* part, unsigned parts, C inverse_elems, bool centred,
                                           C& mean, C& squares) {
  mean = 0;
  if (!centred) {
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

// By all lanes of a warp, the same for each: *part = moments, in each of the cluster's `blocks` blocks.
template <class C>
__device__ __forceinline__ void ShareParts(PartMoments<C>* part, unsigned blocks, const PartMoments<C>& moments) {
  const unsigned lane = threadIdx.x % 32;
  if (blocks == 1) {
    if (lane == 0) *part = moments;
  } else if (lane < blocks) {
    device::StoreToCluster(part, lane, moments);
  }
}
// Then all of them are there.
__device__ __forceinline__ void BlocksBarrier(unsigned blocks) {
  if (blocks == 1) {
    __syncthreads();
  } else {
    device::ClusterBarrier();
  }
}

// The moments of a row from those of its parts, by all lanes of a warp: 128 at most.
template <class C>
__device__ __forceinline__ void MergeClusterParts(const PartMoments<C>* part, unsigned parts, C inverse_elems,
                                                  bool centred, C& mean, C& squares) {
  constexpr int kOfLane = kNormThreads / 32 * kNormCluster / 32;
  static_assert(kTeamWarps * kTeamCluster <= kOfLane * 32);
  C count[kOfLane], means[kOfLane], all[kOfLane];
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) {
    const unsigned index = threadIdx.x % 32 + i * 32;
    const PartMoments<C> p = index < parts ? part[index] : PartMoments<C>{};
    count[i] = p.count;
    means[i] = p.mean;
    all[i] = p.squares;
  }
  MergeMoments<kOfLane>(count, means, all, inverse_elems, 32, centred, mean, squares);
}

}  // namespace cudaep::kernels
