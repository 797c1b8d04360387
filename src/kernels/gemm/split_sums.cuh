// Sums of a tile that the blocks of a cluster have parts of, each of a part of the inner dimension: a block gets the
// others' parts of what it finishes, straight into its shared memory.
//
// What is finished at once are segments, 32 columns of the 16 rows of a warp (warpgroup_product.cuh), of which a thread
// has kSegmentSums. Upper warps and lower ones of a segment, kHalves for each of them, are dealt out in order.
#pragma once

#include "device/cluster.h"

namespace cudaep::kernels::warpgroup {

inline constexpr int kSegmentColumns = 32, kSegmentSums = 16;

// kMost: blocks of a cluster at most, a power of two.
template <int kColumns, int kGroups, int kMost>
struct SplitSums {
  static constexpr int kHalves = 2 * kColumns / kSegmentColumns;
  static_assert(kHalves % kMost == 0);

  struct alignas(16) Piece {
    uint32_t word[4];
  };
  static constexpr int kPieces = kSegmentSums / 4;
  // Of another block's segments: as many as one has at most, for two warps of each group.
  using Segments = Piece[kHalves * (kMost - 1) / kMost][kGroups * 2][kPieces][32];

  device::CopyBarrier arrived;
  Segments segments;

  // By one thread, before a barrier of the cluster.
  __device__ __forceinline__ void Init(int splits) {
    arrived.Init(1);
    const int of_block = kHalves / splits;
    arrived.ArriveExpecting(static_cast<unsigned>((splits - 1) * of_block * static_cast<int>(sizeof(segments[0]))));
  }

  static __device__ __forceinline__ bool Owns(int rank, int splits, int segment, int warp) {
    return (segment * 2 + warp / 2) / (kHalves / splits) == rank;
  }

  // A thread's sums of all segments that others finish go to these.
  template <class Sum>
  __device__ __forceinline__ void Send(const Sum (&sum)[kColumns / 2], int rank, int splits, int group, int warp) {
    const int of_block = kHalves / splits, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int segment = 0; segment < kColumns / kSegmentColumns; ++segment) {
      const int half = segment * 2 + warp / 2, to = half / of_block;
      if (to == rank) continue;
      const int place = ((rank - to - 1) & (splits - 1)) * of_block + half % of_block;
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        Piece piece;
        memcpy(&piece, &sum[segment * kSegmentSums + i * 4], sizeof(piece));
        device::StoreToClusterAsync(&segments[place][group * 2 + warp % 2][i][lane], &arrived,
                                    static_cast<unsigned>(to), piece);
      }
    }
  }

  // Adds what the others have sent of a segment that the block finishes.
  template <class Sum>
  __device__ __forceinline__ void Add(Sum* sum, int segment, int splits, int group, int warp) {
    const int of_block = kHalves / splits, lane = static_cast<int>(threadIdx.x) % 32;
    const int half = segment * 2 + warp / 2;
#pragma unroll 1
    for (int from = 0; from < splits - 1; ++from) {
      const auto& pieces = segments[from * of_block + half % of_block][group * 2 + warp % 2];
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        Sum part[4];
        memcpy(part, &pieces[i][lane], sizeof(part));
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i * 4 + j] += part[j];
      }
    }
  }
};

}  // namespace cudaep::kernels::warpgroup
