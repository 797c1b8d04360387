#include <algorithm>
#include <cmath>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/conv/deform_columns.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostRows = 65535;  // of grid.y and grid.z
constexpr int64_t kEnoughBlocks = 1024;

// Of one dimension: the two neighbours of a place, -1 for those outside, and their weights.
template <class C>
struct Neighbours {
  int64_t low, high;
  C low_weight, high_weight;
};

template <class C>
__device__ __forceinline__ Neighbours<C> NeighboursOf(C at, int64_t size) {
  if (!(at > C(-1)) || !(at < static_cast<C>(size))) return {-1, -1, C(0), C(0)};
  const C floor = std::floor(at);
  const auto low = static_cast<int64_t>(floor);
  return {low, low + 1 < size ? low + 1 : -1, C(1) - (at - floor), at - floor};
}

// A thread has one pixel and one tap of an offset group, and walks through channels of that group.
template <class T>
__global__ void __launch_bounds__(kThreads)
    DeformColumnsKernel(__grid_constant__ const DeformColumns p, const T* x, const T* offset, const T* mask, T* columns,
                        int64_t first_pixel, int64_t pixels) {
  using C = ComputeType<T>;
  device::GridDependencyWait();
  const Im2col& s = p.shape;
  const int64_t pixel = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (pixel >= pixels) return;
  const int64_t at = first_pixel + pixel, all = s.out[1] * s.out[2];
  const int64_t row = at / s.out[2], column = at - row * s.out[2];
  const int64_t taps = s.kernel[1] * s.kernel[2], group_channels = s.channels / p.offset_groups;
  for (int64_t moved = blockIdx.y; moved < p.offset_groups * taps; moved += gridDim.y) {
    const int64_t group = moved / taps, tap = moved - group * taps;
    const int64_t down = row * s.stride[1] - s.pad[1] + tap / s.kernel[2] * s.dilation[1];
    const int64_t across = column * s.stride[2] - s.pad[2] + tap % s.kernel[2] * s.dilation[2];
    const T* const moves = offset + moved * 2 * all + at;
    const Neighbours<C> y = NeighboursOf(static_cast<C>(down) + Load(moves[0]), s.in[1]);
    const Neighbours<C> z = NeighboursOf(static_cast<C>(across) + Load(moves[all]), s.in[2]);
    const C weight = mask == nullptr ? C(1) : Load(mask[moved * all + at]);
    for (int64_t i = blockIdx.z; i < group_channels; i += gridDim.z) {
      const int64_t channel = group * group_channels + i;
      const T* const plane = x + channel * s.in[1] * s.in[2];
      const auto pixel_at = [&](int64_t h, int64_t w) {
        return h < 0 || w < 0 ? C(0) : static_cast<C>(Load(plane[h * s.in[2] + w]));
      };
      const C top = z.low_weight * pixel_at(y.low, z.low) + z.high_weight * pixel_at(y.low, z.high);
      const C bottom = z.low_weight * pixel_at(y.high, z.low) + z.high_weight * pixel_at(y.high, z.high);
      columns[(channel * taps + tap) * pixels + pixel] =
          Store<T>((y.low_weight * top + y.high_weight * bottom) * weight);
    }
  }
}

}  // namespace

Status LaunchDeformColumns(const DeformColumns& problem, DataType type, const void* x, const void* offset,
                           const void* mask, void* columns, int64_t first_pixel, int64_t pixels,
                           device::Stream stream) {
  const Im2col& s = problem.shape;
  const int64_t moved = problem.offset_groups * s.kernel[1] * s.kernel[2];
  if (s.channels * moved * pixels == 0) return Status::Ok();
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(pixels, kThreads));
  config.grid.y = static_cast<unsigned>(std::min(moved, kMostRows));
  const int64_t blocks = static_cast<int64_t>(config.grid.x) * config.grid.y;
  config.grid.z =
      static_cast<unsigned>(std::min({s.channels / problem.offset_groups, CeilDiv(kEnoughBlocks, blocks), kMostRows}));
  config.block.x = kThreads;
  config.programmatic = true;
  return VisitType<kDeformTypes>(type, NotSupported("element type ", DataTypeName(type)), [&]<class T>() {
    return device::Launch(DeformColumnsKernel<T>, config, stream, problem, static_cast<const T*>(x),
                          static_cast<const T*>(offset), static_cast<const T*>(mask), static_cast<T*>(columns),
                          first_pixel, pixels);
  });
}

}  // namespace cudaep::kernels
