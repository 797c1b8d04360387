// Copies a matrix that may be repeated along either dimension into a contiguous one: Gemm's C before it is added to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

// y[i, j] = c[i * row_stride + j * column_stride], elements of 2, 4 or 8 bytes.
Status LaunchBroadcastMatrix(size_t element_bytes, const void* c, void* y, int64_t rows, int64_t columns,
                             int64_t row_stride, int64_t column_stride, device::Stream stream);

}  // namespace cudaep::kernels
