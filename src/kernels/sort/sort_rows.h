// Puts rows of unsigned words in lexicographic order; equal rows keep theirs. The result is a permutation.
//
// A merge sort: blocks sort tiles in shared memory, then pairs of runs are merged, one launch a doubling, each place by
// a binary search in the other run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"

namespace cudaep::kernels {

struct RowSort {
  int64_t rows = 0;
  int64_t row_words = 1;
  int word_bytes = 8;  // 1, 2, 4 or 8

  size_t scratch_bytes() const { return static_cast<size_t>(rows) * sizeof(int64_t); }
};

// order[i] becomes the number of the row with place i.
Status LaunchSortRows(const RowSort& sort, const void* words, int64_t* order, void* scratch, device::Stream stream);

}  // namespace cudaep::kernels
