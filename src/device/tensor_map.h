// How a matrix lies in global memory, for kernels that copy boxes of it (device/warpgroup.h): devices from 9.0 on.
//
// A box is kBoxColumns columns of 16 bits of some rows. In shared memory its rows follow each other in the order of
// BoxRow, 128 bytes each, and the eight pieces of 16 bytes of a row as BoxPieceOffset says: what tensor cores read of
// it comes from all banks. Beyond the matrix' edges a box holds zeros.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/status.h"

namespace cudaep::device {

inline constexpr int kBoxColumns = 64, kBoxRowBytes = 2 * kBoxColumns;
inline constexpr unsigned kMostBoxRows = 256;
inline constexpr size_t kBoxAlignment = 1024;  // in shared memory

// The row that a box has at `place`, from its first one: of each 4 * kSideBySide of them, row kSideBySide * q + 2 * i +
// j lies at 8 * i + 2 * q + j, j below 2 and q below 4. Of products whose B it is a thread of a warp has columns 8 * i
// + 2 * (lane % 4) + j (device/warpgroup.h), and so kSideBySide of the matrix' rows side by side, from kSideBySide *
// (lane % 4) on. With 2, rows lie in their own order.
template <int kSideBySide>
constexpr int BoxRow(int place) {
  static_assert(kSideBySide == 2 || kSideBySide == 8);
  const int in_group = place % (4 * kSideBySide);
  return place - in_group + kSideBySide * (in_group % 8 / 2) + in_group / 8 * 2 + in_group % 2;
}

// Bytes from a box's start to a piece of the row at place `row`.
constexpr int BoxPieceOffset(int row, int piece) { return row * kBoxRowBytes + (piece ^ (row % 8)) * 16; }

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
// `side_by_side` (2 or 8) is that of BoxRow; with 8, `rows` and `box_rows` are multiples of 32.
Status MakeTensorMap(const void* matrix, int64_t rows, int64_t columns, unsigned box_rows, TensorMap* map,
                     int side_by_side = 2);

namespace detail {
// What MakeTensorMap refuses on every device.
Status CheckTensorMap(const void* matrix, int64_t rows, int64_t columns, unsigned box_rows, int side_by_side);
}  // namespace detail

}  // namespace cudaep::device
