#include <algorithm>
#include <cmath>

#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/linalg/determinant.h"

namespace cudaep::kernels {
namespace {

constexpr int kMostThreads = 256;

// Where the larger element of a column is; NaN is larger than any number.
struct Pivot {
  double size;
  int64_t row;
};
__device__ __forceinline__ Pivot Larger(Pivot a, Pivot b) { return b.size > a.size || b.size != b.size ? b : a; }

__device__ __forceinline__ Pivot LargestOfBlock(Pivot pivot) {
  __shared__ Pivot of_warp[kMostThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) {
    pivot = Larger(pivot, {__shfl_xor_sync(device::kFullWarp, pivot.size, offset),
                           __shfl_xor_sync(device::kFullWarp, pivot.row, offset)});
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = pivot;
  __syncthreads();
  pivot = of_warp[0];
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) pivot = Larger(pivot, of_warp[warp]);
  return pivot;
}

template <class T>
__global__ void __launch_bounds__(kMostThreads) DeterminantKernel(const T* x, T* y, double* scratch, int64_t rows) {
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
  config.block.x = args.rows <= 8 ? 32 : args.rows <= 24 ? 64 : kMostThreads;
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
