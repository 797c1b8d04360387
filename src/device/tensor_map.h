// How a matrix lies in global memory, for kernels that copy boxes of it (device/warpgroup.h): devices from 9.0 on.
//
// A box is kBoxColumns columns of 16 bits of some rows. In shared memory its rows follow each other, 128 bytes each,
// and of the eight pieces of 16 bytes of row r, piece p lies at place p ^ (r % 8): what tensor cores read of it
// comes from all banks. Beyond the matrix' edges a box holds zeros.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/status.h"

namespace cudaep::device {

inline constexpr int kBoxColumns = 64, kBoxRowBytes = 2 * kBoxColumns;
inline constexpr unsigned kMostBoxRows = 256;
// The row that a box made with kTogether has at `place`, from the box's first one: of each 4 * kTogether of them, row
// kTogether * q + 2 * i + j lies at 8 * i + 2 * q + j, j below 2 and q below 4.
template <int kTogether>
constexpr int BoxRow(int place) {
  static_assert(kTogether == 2 || kTogether == 8);
  const int in_group = place % (4 * kTogether);
  return place - in_group + kTogether * (in_group % 8 / 2) + in_group / 8 * 2 + in_group % 2;
}
inline constexpr size_t kBoxAlignment = 1024;  // in shared memory

// By value an argument of kernels (__grid_constant__). Opaque; the simulated device's begins with
// the matrix' address.
#if defined(CUDAEP_SIMULATED_DEVICE)
struct TensorMap {
#else
struct alignas(128) TensorMap {
#endif
  uint64_t word[16] = {};
};

// Of a contiguous matrix [rows, columns] of 16-bit elements, aligned to 16 bytes, columns a multiple of 8, both below
// 2^31. kInvalidArgument for others, kNotSupported where the driver has no such maps.
//
// `together`: of products whose B is this matrix (device/warpgroup.h) a thread has so many columns side by side, since
// a box has its rows in the order of BoxRow<together>. With 2 that is as they lie; with 8, `rows` and `box_rows` are
// multiples of 32.
Status MakeTensorMap(const void* matrix, int64_t rows, int64_t columns, unsigned box_rows, TensorMap* map,
                     int together = 2);

}  // namespace cudaep::device
