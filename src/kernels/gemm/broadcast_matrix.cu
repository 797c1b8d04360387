#include "kernels/gemm/broadcast_matrix.h"

#include <algorithm>

#include "core/checked_math.h"
#include "device/launch.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostRowBlocks = 65535;  // of grid.y

template <class T>
__global__ void __launch_bounds__(kThreads) BroadcastMatrixKernel(const T* c, T* y, int64_t rows, int64_t columns,
                                                                  int64_t row_stride, int64_t column_stride) {
  device::GridDependencyWait();
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= columns) return;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    y[row * columns + column] = c[row * row_stride + column * column_stride];
  }
}

template <class T>
Status LaunchAs(const void* c, void* y, int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride,
                device::Stream stream) {
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(columns, kThreads));
  config.grid.y = static_cast<unsigned>(std::min(rows, kMostRowBlocks));
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(BroadcastMatrixKernel<T>, config, stream, static_cast<const T*>(c), static_cast<T*>(y), rows,
                        columns, row_stride, column_stride);
}

}  // namespace

Status LaunchBroadcastMatrix(size_t element_bytes, const void* c, void* y, int64_t rows, int64_t columns,
                             int64_t row_stride, int64_t column_stride, device::Stream stream) {
  if (rows == 0 || columns == 0) return Status::Ok();
  switch (element_bytes) {
    case 2:
      return LaunchAs<uint16_t>(c, y, rows, columns, row_stride, column_stride, stream);
    case 4:
      return LaunchAs<uint32_t>(c, y, rows, columns, row_stride, column_stride, stream);
    case 8:
      return LaunchAs<uint64_t>(c, y, rows, columns, row_stride, column_stride, stream);
    default:
      return Internal("broadcast of a matrix of ", element_bytes, "-byte elements");
  }
}

}  // namespace cudaep::kernels
