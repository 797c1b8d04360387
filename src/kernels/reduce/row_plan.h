// How kernels that need a whole row at once (softmax, layer normalisation) spread contiguous rows over threads.
//
// A resident row is read once and stays in the registers of `width` threads of one block; a longer one is streamed: a
// block of kStreamThreads reads it twice, the second time mostly from the L2 cache, because only as many rows are in
// flight as the device has multiprocessors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cudaep::kernels {

inline constexpr unsigned kStreamThreads = 1024;
inline constexpr unsigned kMaxRowThreads = 1024;
inline constexpr int kScalarPacks = 8;  // elements of a thread where rows cannot be read in packs

// Packs of 16 bytes that a thread of a large problem keeps: 32 elements of up to 32 bits, 16 of 64.
constexpr int ResidentPacks(size_t widest_bytes) { return widest_bytes == 2 ? 4 : 8; }

struct RowPlan {
  bool resident = true;
  int pack = 1;                 // elements of one access: as asked for, or 1
  int packs_per_thread = 1;     // resident: 1, ResidentPacks() or, without packs, kScalarPacks
  unsigned width = 32;          // threads of one row: a power of two up to 32, or a multiple of 32
  unsigned rows_per_block = 1;  // 1 unless width <= 32
};

// `pack` is what type and pointers allow; rows whose length it does not divide are accessed by element.
RowPlan PlanRows(int64_t rows, int64_t row_elems, size_t widest_bytes, int pack);

}  // namespace cudaep::kernels
