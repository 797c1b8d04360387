// Sums of a tile that the blocks of a cluster have parts of, each of a part of the inner dimension: a block gets the
// others' parts of what it finishes, straight into its shared memory.
//
// What is finished at once are segments, 32 columns of the 16 rows of a warp (warpgroup_product.cuh), of which a thread
// has kSegmentSums. A half is what two warps of each group, the upper ones or the lower ones, have of 32 columns; the
// tile's halves are dealt out in order, as many to each block.
#pragma once

#include <cstring>

#include "device/cluster.h"
#include "kernels/gemm/warpgroup_tiles.h"

namespace cudaep::kernels::warpgroup {

inline constexpr int kSegmentColumns = kWarpgroupSegment, kSegmentSums = 16;

// Of one tile a launch. kMost: the blocks at most; there are 2, 4, ... of them.
template <int kColumns, int kGroups, int kMost>
class SplitSums {
 public:
  static constexpr int kHalves = 2 * kColumns / kSegmentColumns;
  static_assert(kMost > 1 && kHalves % kMost == 0);

  // By one thread, before a barrier of the cluster.
  __device__ __forceinline__ void Init(int blocks) {
    arrived_.Init(1);
    const auto bytes = (blocks - 1) * (kHalves / blocks) * static_cast<int>(sizeof(parts_[0]));
    arrived_.ArriveExpecting(static_cast<unsigned>(bytes));
  }

  static __device__ __forceinline__ bool Finishes(int rank, int blocks, int segment, int warp) {
    return HalfOf(segment, warp) / (kHalves / blocks) == rank;
  }

  // A thread's sums of what its block finishes become those of all blocks; of the others they are theirs.
  template <class Sum>
  __device__ __forceinline__ void Exchange(Sum (&sum)[kColumns / 2], int rank, int blocks, int group, int warp) {
    static_assert(sizeof(Sum) == sizeof(Piece::word[0]));
    constexpr int kSegments = kColumns / kSegmentColumns;
    const int of_block = kHalves / blocks, lane = static_cast<int>(threadIdx.x) % 32;
    const int slot = group * 2 + warp % 2;
#pragma unroll
    for (int segment = 0; segment < kSegments; ++segment) {
      const int half = HalfOf(segment, warp), to = half / of_block;
      if (to == rank) continue;
      // Parts lie by how far their sender comes behind the receiver, going round.
      const int place = ((rank - to - 1) & (blocks - 1)) * of_block + half % of_block;
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        Piece piece;
        memcpy(&piece, &sum[segment * kSegmentSums + i * 4], sizeof(piece));
        device::StoreToClusterAsync(&parts_[place][slot][i][lane], &arrived_, static_cast<unsigned>(to), piece);
      }
    }
    arrived_.Wait(0);
#pragma unroll
    for (int segment = 0; segment < kSegments; ++segment) {
      if (!Finishes(rank, blocks, segment, warp)) continue;
#pragma unroll 1
      for (int from = 0; from < blocks - 1; ++from) {
        const auto& part = parts_[from * of_block + HalfOf(segment, warp) % of_block][slot];
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
          Sum more[4];
          memcpy(more, &part[i][lane], sizeof(more));
#pragma unroll
          for (int j = 0; j < 4; ++j) sum[segment * kSegmentSums + i * 4 + j] += more[j];
        }
      }
    }
  }

 private:
  struct alignas(16) Piece {
    uint32_t word[4];
  };
  static constexpr int kPieces = kSegmentSums / 4;

  static __device__ __forceinline__ int HalfOf(int segment, int warp) { return segment * 2 + warp / 2; }

  device::CopyBarrier arrived_;
  Piece parts_[kHalves / kMost * (kMost - 1)][kGroups * 2][kPieces][32];
};

// Where no blocks share a tile.
struct NoSplitSums {
  __device__ __forceinline__ void Init(int /*blocks*/) {}
  static __device__ __forceinline__ bool Finishes(int /*rank*/, int /*blocks*/, int /*segment*/, int /*warp*/) {
    return true;
  }
  template <class Sums>
  __device__ __forceinline__ void Exchange(Sums& /*sum*/, int /*rank*/, int /*blocks*/, int /*group*/, int /*warp*/) {}
};

}  // namespace cudaep::kernels::warpgroup
