// How a transpose runs: a pure function of dimensions, permutation and element size.
//
// Dimensions are coalesced first: those of size 1 dropped, neighbours that stay neighbours merged, and an innermost
// run of up to 16 bytes that stays innermost taken as one wide element. What is left is one of
//   kCopy   nothing moves;
//   kRows   the innermost dimension stays: rows are gathered by a strided copy;
//   kTiles  the innermost dimension changes: tiles go through shared memory, so that reads and writes are both
//           contiguous. With packs threads move 16 bytes at a time; without, elements move singly and the tile has the
//           shape of the data (long and thin for a small dimension);
//   kJoin   two to four rows become one, their elements in turns (planes to pixels, blocks to images): a thread holds
//           the same elements of all rows in packs;
//   kSplit  the other way round.
#pragma once

#include <cstdint>

#include "kernels/movement/strided_copy.h"
#include "kernels/pack.h"

namespace cudaep::kernels {

enum class TransposeKind : uint8_t { kCopy, kRows, kTiles, kJoin, kSplit };

// A batch of matrices: element (a, b) of matrix m is read at a + b * in_stride and written at b + a * out_stride,
// both from the start that the batch dimensions give.
struct TransposeTiles {
  int elem_bytes = 1;  // 1, 2, 4, 8 or 16
  bool packs = false;  // whether sizes and strides allow packs of 16 bytes; addresses must too
  int64_t a_size = 0, b_size = 0;
  int64_t in_stride = 0, out_stride = 0;
  int log_tile_a = 0, log_tile_b = 0;  // of single elements; with packs the element size fixes the tile
  int batch_rank = 0;                  // innermost first
  int64_t batch_size[kMaxStridedRank] = {};
  int64_t batch_in_stride[kMaxStridedRank] = {};
  int64_t batch_out_stride[kMaxStridedRank] = {};
};

struct TransposePlan {
  TransposeKind kind = TransposeKind::kCopy;
  int64_t bytes = 0;
  StridedCopy rows;      // always valid; what runs when a buffer's address suits no tile
  TransposeTiles tiles;  // of kTiles, kJoin (b are the rows that become one) and kSplit (a are)
};

// Packs are for elements of up to so many bytes; wider ones gain nothing by them.
inline constexpr int kMaxPackedElemBytes = 4;

// Extent of a tile with packs, in elements: rows of 128 bytes on both sides, of 256 for elements of 4 bytes (the best
// of both widths on an H200, each).
constexpr int PackTileA(int elem_bytes) { return (elem_bytes < 4 ? 128 : 256) / elem_bytes; }
constexpr int PackTileB(int elem_bytes) { return PackTileA(elem_bytes); }

// Elements in a tile of single ones: 8 KB, or 16 for each of 256 threads. Neither side is longer than the block.
constexpr int ElementTileElems(int elem_bytes) { return elem_bytes == 1 ? 4096 : 8192 / elem_bytes; }
inline constexpr int kMaxLogElementTile = 8;

// Elements of each row that a thread of kJoin and kSplit holds: what makes whole packs on the side that is one row.
inline constexpr int kMaxWays = 4;
constexpr int InterleaveElems(int elem_bytes, int ways) {
  const int pack = kPackBytes / elem_bytes;
  return ways == 3 ? pack : pack > ways ? pack / ways : 1;
}

// What a test or a measurement wants instead of the planner's choice.
struct TransposeChoice {
  TransposeKind kind = TransposeKind::kRows;
  bool packs = false;  // of kTiles
};

// `perm[i]` is the input dimension that becomes output dimension i; it must be a permutation. Dimensions may be zero.
// kInvalidArgument where `forced` cannot be: a copy of what moves, tiles of what does not, packs and
// rows joined or split of other sizes.
Result<TransposePlan> PlanTranspose(Dims dims, Dims perm, size_t elem_bytes, const TransposeChoice* forced = nullptr);

}  // namespace cudaep::kernels
