#include <cmath>

#include "core/data_type_traits.h"
#include "kernels/linalg/inverse.h"
#include "kernels/linalg/pivot.cuh"

namespace cudaep::kernels {
namespace {

// The matrix and the identity beside it, which becomes the inverse.
template <class T>
__global__ void __launch_bounds__(kMostPivotThreads) InverseKernel(const T* x, T* y, double* scratch, int64_t rows) {
  device::GridDependencyWait();
  const int64_t elems = rows * rows, first = threadIdx.x, step = blockDim.x, wide = 2 * rows;
  const T* const from = x + blockIdx.x * elems;
  T* const to = y + blockIdx.x * elems;
  double* const a = scratch + blockIdx.x * 2 * elems;
  for (int64_t i = first; i < elems; i += step) {
    const int64_t row = i / rows, column = i % rows;
    a[row * wide + column] = static_cast<double>(Load(from[i]));
    a[row * wide + rows + column] = row == column ? 1 : 0;
  }
  for (int64_t k = 0; k < rows; ++k) {
    __syncthreads();
    Pivot pivot{-1, k};
    for (int64_t i = k + first; i < rows; i += step) pivot = Larger(pivot, {std::fabs(a[i * wide + k]), i});
    pivot = LargestOfBlock(pivot);
    const double diagonal = a[pivot.row * wide + k];
    __syncthreads();
    for (int64_t j = k + first; j < wide; j += step) {
      const double other = a[pivot.row * wide + j];
      if (pivot.row != k) a[pivot.row * wide + j] = a[k * wide + j];
      a[k * wide + j] = other / diagonal;
    }
    __syncthreads();
    // All other rows, in the columns behind; columns of a row are side by side. Column k is read by all and left.
    const int64_t width = wide - k - 1;
    for (int64_t i = first; i < (rows - 1) * width; i += step) {
      const int64_t other = i / width, row = other + (other >= k ? 1 : 0), column = k + 1 + i % width;
      a[row * wide + column] -= a[row * wide + k] * a[k * wide + column];
    }
  }
  __syncthreads();
  for (int64_t i = first; i < elems; i += step) {
    to[i] = Store<T>(static_cast<ComputeType<T>>(a[i / rows * wide + rows + i % rows]));
  }
}

}  // namespace

Status LaunchInverse(const InverseArgs& args, device::Stream stream) {
  if (args.matrices == 0 || args.rows == 0) return Status::Ok();
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(args.matrices);
  config.block.x = PivotThreads(args.rows);
  config.programmatic = true;
  return VisitType<kFloatTypes>(args.type, NotSupported("inverse of ", DataTypeName(args.type)), [&]<class T>() {
    return device::Launch(InverseKernel<T>, config, stream, static_cast<const T*>(args.x), static_cast<T*>(args.y),
                          args.scratch, args.rows);
  });
}

}  // namespace cudaep::kernels
