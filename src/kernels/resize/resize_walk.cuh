// What the resize kernels share: output index to coordinates, and coordinates to places in the input.
#pragma once

#include "core/checked_math.h"
#include "device/launch.h"
#include "kernels/fast_divide.h"
#include "kernels/resize/resize.h"

namespace cudaep::kernels {

inline constexpr int kResizeThreads = 256;

template <class Index>
struct ResizeArgs {
  using Count = std::conditional_t<sizeof(Index) == 4, FastDivider, Index>;
  ResizeShape shape;
  Count count[kMaxResizeRank];  // outputs; of dimension 0 packs
  int64_t in_stride[kMaxResizeRank];
  Index threads;
};

template <class Index>
__device__ __forceinline__ Index SplitCoordinate(const ResizeArgs<Index>& args, int d, Index* rest) {
  if (d + 1 == args.shape.rank) return *rest;
  if constexpr (sizeof(Index) == 4) {
    uint32_t coordinate;
    *rest = args.count[d].DivideWithRemainder(*rest, &coordinate);
    return coordinate;
  } else {
    const Index coordinate = *rest % args.count[d];
    *rest /= args.count[d];
    return coordinate;
  }
}

__device__ __forceinline__ float SourceCoordinate(const ResizeDim& dim, int64_t out) {
  return dim.offset + (static_cast<float>(out) + dim.before) * dim.numerator / dim.denominator - dim.after;
}

__device__ __forceinline__ bool IsOutside(const ResizeDim& dim, float coordinate) {
  return coordinate < 0.0f || coordinate > static_cast<float>(dim.in - 1);
}

__device__ __forceinline__ int64_t ClampToInput(const ResizeDim& dim, int64_t index) {
  return device::Min(device::Max(index, int64_t{0}), dim.in - 1);
}

// A thread for each pack of `pack` outputs along the innermost dimension; 0 when there is none.
template <class Index>
ResizeArgs<Index> MakeResizeArgs(const ResizeShape& shape, int pack) {
  ResizeArgs<Index> args{};
  args.shape = shape;
  args.threads = 1;
  int64_t stride = 1;
  for (int d = 0; d < shape.rank; ++d) {
    const int64_t count = d == 0 ? shape.dim[0].out / pack : shape.dim[d].out;
    args.in_stride[d] = stride;
    stride *= shape.dim[d].in;
    args.threads *= static_cast<Index>(count);
    if (count > 0) args.count[d] = typename ResizeArgs<Index>::Count(static_cast<Index>(count));
  }
  return args;
}

inline int64_t OutputElems(const ResizeShape& shape) {
  int64_t elems = 1;
  for (int d = 0; d < shape.rank; ++d) elems *= shape.dim[d].out;
  return elems;
}

inline device::LaunchConfig ResizeConfig(int64_t threads) {
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(threads, kResizeThreads));
  config.block.x = kResizeThreads;
  config.programmatic = true;
  return config;
}

}  // namespace cudaep::kernels
