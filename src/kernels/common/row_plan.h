// How kernels that need a whole row at once (softmax, layer normalisation) spread contiguous rows over threads.
//
// A resident row is read once and stays in the registers of `width` threads of one block, which may load its next row
// while it computes. A longer one is streamed: a block of kStreamThreads reads it twice, the second time mostly from
// the L2 cache, because only as many rows are in flight as the device has multiprocessors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/status.h"
#include "kernels/pack.h"

namespace cudaep::kernels {

inline constexpr unsigned kStreamThreads = 1024;
inline constexpr unsigned kMaxRowThreads = 512;  // of a resident row, so that each thread may have 128 registers
inline constexpr int kScalarPacks = 8;           // elements of a thread where rows cannot be read in packs
// A row's at most: kernels number its elements in 32 bits, and go up to a round of a block, or of the blocks of a
// cluster, beyond its end.
inline constexpr int64_t kMostRowElems = (int64_t{1} << 31) - (int64_t{1} << 17);

// Elements of one access where pointers and row length allow it: 16 bytes of the widest type. 64-bit elements go one
// at a time, which is nearly as fast and saves half of their kernels.
constexpr int RowPack(size_t widest_bytes) { return widest_bytes == 8 ? 1 : PackElems(widest_bytes); }
// Packs that a thread of a large problem keeps in registers: 32 elements.
constexpr int ResidentPacks(size_t widest_bytes) {
  return widest_bytes == 8 ? kScalarPacks : 32 / RowPack(widest_bytes);
}

struct RowPlan {
  bool resident = true;
  int pack = 1;                 // elements of one access: RowPack() or 1
  int packs_per_thread = 1;     // resident: 1, ResidentPacks() or, without packs, kScalarPacks
  unsigned width = 32;          // threads of one row: a power of two up to 32, or a multiple of 32
  unsigned rows_per_block = 1;  // at a time; 1 unless width <= 32
  int iterations = 1;           // resident: times that a block goes on to further rows
};

// `packed` says that pointers and operands allow packs; rows whose length is no multiple of one do not get them.
RowPlan PlanRows(int64_t rows, int64_t row_elems, size_t widest_bytes, bool packed);

// What a test or a measurement wants instead of the planner's choice.
struct RowChoice {
  bool resident = true;
  bool packs = true;
  int packs_per_thread = 0;  // one of those that RowPlan names, 0 for the planner's
};

// kInvalidArgument where rows are not whole packs or do not fit the registers of a block.
Result<RowPlan> PlanRows(int64_t rows, int64_t row_elems, size_t widest_bytes, const RowChoice& forced);

}  // namespace cudaep::kernels
