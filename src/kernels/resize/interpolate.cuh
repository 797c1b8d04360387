// Interpolation of one element type; the types are spread over files, which compile at the same time.
#pragma once

#include <cmath>
#include <limits>
#include <optional>

#include "core/data_type_traits.h"
#include "kernels/index_limit.h"
#include "kernels/resize/resize_walk.cuh"

namespace cudaep::kernels {
namespace resize {

// What weighted sums of T are made in: fp32 where that holds every value.
template <class T>
using SumType = std::conditional_t<sizeof(T) <= 2 || std::is_same_v<T, float>, float, double>;

// Scaled dimensions, apart from the ones that are copied along.
struct Axes {
  int count = 0;
  int dim[kMaxResizeRank] = {};  // number of the dimension
};

// The filter over one scaled dimension: taps [first, first + count) around a coordinate, clamped to the input.
template <class C>
struct Taps {
  int64_t first = 0;
  int count = 1;
  float center = 0;
  C norm = 1;
};

__device__ __forceinline__ float Weight(const Interpolation& how, float distance) {
  const float d = fabsf(distance);
  if (how.filter == Filter::kLinear) return device::Max(0.0f, 1.0f - d);
  const float a = how.cubic_coefficient;
  if (d <= 1.0f) return ((a + 2.0f) * d - (a + 3.0f)) * d * d + 1.0f;
  if (d < 2.0f) return ((a * d - 5.0f * a) * d + 8.0f * a) * d - 4.0f * a;
  return 0.0f;
}

// Weight of input `index`, which may lie outside.
__device__ __forceinline__ float WeightAt(const Interpolation& how, const ResizeDim& dim, float center, int64_t index) {
  if (how.exclude_outside && (index < 0 || index >= dim.in)) return 0.0f;
  return Weight(how, (static_cast<float>(index) - center) * dim.shrink);
}

template <class C>
__device__ __forceinline__ Taps<C> FindTaps(const Interpolation& how, const ResizeDim& dim, float center) {
  Taps<C> taps;
  taps.center = center;
  const float radius = (how.filter == Filter::kLinear ? 1.0f : 2.0f) / dim.shrink;
  taps.first = static_cast<int64_t>(floorf(center - radius)) + 1;
  taps.count = static_cast<int>(static_cast<int64_t>(ceilf(center + radius)) - taps.first);
  if (!how.antialias && !how.exclude_outside) return taps;
  C sum = 0;
  for (int t = 0; t < taps.count; ++t) sum += WeightAt(how, dim, center, taps.first + t);
  if (sum != C(0)) taps.norm = C(1) / sum;
  return taps;
}

template <class T, class C>
__device__ __forceinline__ T FromSum(C sum, bool round) {
  if constexpr (std::is_integral_v<T>) {
    if (round) sum = floor(sum + C(0.5));
    // Keeps the overshoot of a cubic filter in range. 64-bit limits may be rounded outwards.
    if (sum >= static_cast<C>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    if (sum <= static_cast<C>(std::numeric_limits<T>::lowest())) return std::numeric_limits<T>::lowest();
    return static_cast<T>(sum);
  } else {
    return Store<T>(sum);
  }
}

// Walks the products of taps of all axes like an odometer; `kAxes` is 2 or kMaxResizeRank.
template <int kAxes, class T, class C, class Index>
__device__ __forceinline__ C SumTaps(const T* x, int64_t offset, const Taps<C> (&taps)[kAxes], const Interpolation& how,
                                     const Axes& axes, const ResizeArgs<Index>& args) {
  int at[kAxes] = {};
  C sum = 0;
  for (;;) {
    C weight = 1;
    int64_t source = offset;
#pragma unroll
    for (int axis = 0; axis < kAxes; ++axis) {
      if (axis >= axes.count) break;
      const ResizeDim& dim = args.shape.dim[axes.dim[axis]];
      const int64_t index = taps[axis].first + at[axis];
      weight *= static_cast<C>(WeightAt(how, dim, taps[axis].center, index)) * taps[axis].norm;
      source += ClampToInput(dim, index) * args.in_stride[axes.dim[axis]];
    }
    if (weight != C(0)) sum += weight * static_cast<C>(Load(x[source]));
    bool done = true;
#pragma unroll
    for (int axis = 0; axis < kAxes; ++axis) {
      if (!done || axis >= axes.count) break;
      done = ++at[axis] == taps[axis].count;
      if (done) at[axis] = 0;
    }
    if (done) return sum;
  }
}

template <class T, int kAxes, class Index>
__global__ void __launch_bounds__(kResizeThreads)
    InterpolateKernel(const T* x, T* y, Interpolation how, __grid_constant__ const Axes axes,
                      __grid_constant__ const ResizeArgs<Index> args) {
  using C = SumType<T>;
  device::GridDependencyWait();
  const Index thread = static_cast<Index>(blockIdx.x) * kResizeThreads + threadIdx.x;
  if (thread >= args.threads) return;
  Index rest = thread;
  int64_t offset = 0;
  bool outside = false;
  Taps<C> taps[kAxes];
  for (int d = 0; d < args.shape.rank; ++d) {
    const int64_t coordinate = static_cast<int64_t>(SplitCoordinate(args, d, &rest));
    const ResizeDim& dim = args.shape.dim[d];
    if (!dim.scaled) {
      offset += coordinate * args.in_stride[d];
      continue;
    }
    const float center = SourceCoordinate(dim, coordinate);
    outside |= IsOutside(dim, center);
#pragma unroll
    for (int axis = 0; axis < kAxes; ++axis) {  // constant indices keep the taps in registers
      if (axis < axes.count && axes.dim[axis] == d) taps[axis] = FindTaps<C>(how, dim, center);
    }
  }
  const C sum = args.shape.extrapolate && outside ? static_cast<C>(args.shape.extrapolation)
                                                  : SumTaps(x, offset, taps, how, axes, args);
  y[thread] = FromSum<T, C>(sum, how.antialias);
}

template <class T, int kAxes, class Index>
Status LaunchVariant(const ResizeShape& shape, const Interpolation& how, const Axes& axes, const void* x, void* y,
                     device::Stream stream) {
  const ResizeArgs<Index> args = MakeResizeArgs<Index>(shape, 1);
  return device::Launch(InterpolateKernel<T, kAxes, Index>, ResizeConfig(static_cast<int64_t>(args.threads)), stream,
                        static_cast<const T*>(x), static_cast<T*>(y), how, axes, args);
}

template <class T>
Status LaunchAs(const ResizeShape& shape, const Interpolation& how, const void* x, void* y, device::Stream stream) {
  Axes axes;
  for (int d = 0; d < shape.rank; ++d) {
    if (shape.dim[d].scaled) axes.dim[axes.count++] = d;
  }
  const int64_t elems = OutputElems(shape);
  if (elems == 0) return Status::Ok();
  if (axes.count <= 2 && FitsIndex(elems)) {
    return LaunchVariant<T, 2, uint32_t>(shape, how, axes, x, y, stream);
  }
  return LaunchVariant<T, kMaxResizeRank, uint64_t>(shape, how, axes, x, y, stream);
}

using Launcher = Status (*)(const ResizeShape&, const Interpolation&, const void*, void*, device::Stream);

// Null for other types.
Launcher FindFloatLauncher(DataType type);
Launcher FindNarrowLauncher(DataType type);
Launcher FindWideLauncher(DataType type);

// The common form of 16-bit and 32-bit floats: planes, and a filter that no antialiasing widens. Nothing was launched
// where there is no result.
std::optional<Status> LaunchPlanes(const ResizeShape& shape, const Interpolation& how, DataType type, const void* x,
                                   void* y, device::Stream stream);

}  // namespace resize
}  // namespace cudaep::kernels
