// Writes one value at one position of each row, and another everywhere else.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "device/device.h"

namespace cudaep::kernels {

// The output is [outer, depth, inner]; there is an index for each of [outer, inner].
struct OneHotShape {
  int64_t outer = 0, depth = 0, inner = 0;
  int elem_bytes = 1;
};

// Device memory. Fractions of an index are cut off, a negative one counts from the end, and what is outside
// [-depth, depth) is nowhere. `values` are the one for everywhere else and the one for the index.
Status LaunchOneHot(const OneHotShape& shape, const void* indices, DataType index_type, const void* values, void* out,
                    device::Stream stream);

// Ones of `elem_bytes` bytes, given as bits, on the diagonal `k` of a matrix of zeros; those above the main one are
// positive.
Status LaunchEye(int64_t rows, int64_t columns, int64_t k, int elem_bytes, uint64_t one, void* out,
                 device::Stream stream);

}  // namespace cudaep::kernels
