#include <algorithm>
#include <cmath>

#include "core/data_type_traits.h"
#include "kernels/linalg/determinant.h"
#include "kernels/linalg/pivot.cuh"

namespace cudaep::kernels {
namespace {

template <class T>
__global__ void __launch_bounds__(kMostPivotThreads)
    DeterminantKernel(const T* x, T* y, double* scratch, int64_t rows) {
  device::GridDependencyWait();
  const int64_t elems = rows * rows, first = threadIdx.x, step = blockDim.x;
  const T* const from = x + blockIdx.x * elems;
  double* const a = scratch + blockIdx.x * elems;
  for (int64_t i = first; i < elems; i += step) a[i] = static_cast<double>(Load(from[i]));
  double result = 1;
  for (int64_t k = 0; k < rows; ++k) {
    __syncthreads();
    Pivot pivot{-1, k};
    for (int64_t i = k + first; i < rows; i += step) pivot = Larger(pivot, {std::fabs(a[i * rows + k]), i});
    pivot = LargestOfBlock(pivot);
    const double diagonal = a[pivot.row * rows + k];
    result *= diagonal;
    if (pivot.row != k) {
      result = -result;
      __syncthreads();
      for (int64_t j = k + first; j < rows; j += step) {
        const double other = a[pivot.row * rows + j];
        a[pivot.row * rows + j] = a[k * rows + j];
        a[k * rows + j] = other;
      }
    }
    if (diagonal == 0) break;
    __syncthreads();
    // The rest of the rows below, in the columns behind; columns of a row are side by side.
    const int64_t left = rows - k - 1;
    for (int64_t i = first; i < left * left; i += step) {
      const int64_t row = k + 1 + i / left, column = k + 1 + i % left;
      a[row * rows + column] -= a[row * rows + k] / diagonal * a[k * rows + column];
    }
  }
  if (threadIdx.x == 0) y[blockIdx.x] = Store<T>(static_cast<ComputeType<T>>(result));
}

template <class T>
Status Launch(const DeterminantArgs& args, device::Stream stream) {
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(args.matrices);
  config.block.x = PivotThreads(args.rows);
  config.programmatic = true;
  return device::Launch(DeterminantKernel<T>, config, stream, static_cast<const T*>(args.x), static_cast<T*>(args.y),
                        args.scratch, args.rows);
}

}  // namespace

Status LaunchDeterminant(const DeterminantArgs& args, device::Stream stream) {
  if (args.matrices == 0) return Status::Ok();
  return VisitType<kFloatTypes>(args.type, NotSupported("determinant of ", DataTypeName(args.type)),
                                [&]<class T>() { return Launch<T>(args, stream); });
}

}  // namespace cudaep::kernels
