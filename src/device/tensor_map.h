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
Status MakeTensorMap(const void* matrix, int64_t rows, int64_t columns, unsigned box_rows, TensorMap* map);

}  // namespace cudaep::device
