// Where a sample lies along one dimension, and what its padding makes of indices outside.
#pragma once

#include <cmath>

#include "core/data_type_traits.h"
#include "device/rounded.h"
#include "kernels/sample/grid_sample.h"

namespace cudaep::kernels {

inline constexpr int kSampleThreads = 256;

// Element i of the grid, in the type that places are computed in.
template <class C>
__device__ __forceinline__ C GridValue(const void* grid, DataType type, int64_t i) {
  switch (type) {
    case DataType::kFloat16:
      return static_cast<C>(Load(static_cast<const Half*>(grid)[i]));
    case DataType::kBFloat16:
      return static_cast<C>(Load(static_cast<const BFloat16*>(grid)[i]));
    case DataType::kDouble:
      return static_cast<C>(static_cast<const double*>(grid)[i]);
    default:
      return static_cast<C>(static_cast<const float*>(grid)[i]);
  }
}

// The coordinate in pixels of a grid value in [-1, 1], finite for every value but NaN.
template <class C>
__device__ __forceinline__ C PixelOf(const GridSample& p, C value, int64_t size) {
  constexpr C kFar = static_cast<C>(int64_t{1} << 40);
  C at = p.align_corners ? (value + C(1)) / C(2) * static_cast<C>(size - 1)
                         : (device::RoundedProduct(value + C(1), static_cast<C>(size)) - C(1)) / C(2);
  at = at > kFar ? kFar : at < -kFar ? -kFar : at;
  if (p.mode == SampleMode::kNearest) at = std::nearbyint(at);
  return at;
}

// The pixel that counts for index i; -1 for none.
__device__ __forceinline__ int64_t PaddedIndex(const GridSample& p, int64_t i, int64_t size) {
  if (i >= 0 && i < size) return i;
  if (p.padding == SamplePadding::kZeros) return -1;
  if (p.padding == SamplePadding::kBorder) return i < 0 ? 0 : size - 1;
  // Mirrors lie on the pixels at both ends, or half a pixel outside of them.
  const int64_t period = p.align_corners ? 2 * (size - 1) : 2 * size;
  if (period == 0) return 0;
  int64_t in_period = i % period;
  if (in_period < 0) in_period += period;
  if (in_period < size) return in_period;
  return p.align_corners ? period - in_period : period - 1 - in_period;
}

// Elements from a pixel to the next.
__device__ __forceinline__ int64_t PixelStep(const GridSample& p) { return p.channels_last ? p.channels : 1; }

// Where a channel of an image begins; `volume`: pixels of an image.
__device__ __forceinline__ int64_t ChannelOffset(const GridSample& p, int64_t image, int64_t channel, int64_t volume) {
  return image * p.channels * volume + (p.channels_last ? channel : channel * volume);
}

// Of the sample of `point`.
__device__ __forceinline__ int64_t SampleOffset(const GridSample& p, int64_t image, int64_t channel, int64_t point) {
  return ChannelOffset(p, image, channel, p.points) + point * PixelStep(p);
}

template <class C>
__device__ __forceinline__ int64_t FloorIndex(C at) {
  return at != at ? int64_t{-1} : static_cast<int64_t>(std::floor(at));
}

// The point of all images that a thread samples, and its channels: from `first` on each gridDim.y-th. Threads go along
// what lies side by side: points, or with channels last one for each channel of a point.
struct SampleThread {
  int64_t at, first, end;

  explicit __device__ __forceinline__ SampleThread(const GridSample& p)
      : at(static_cast<int64_t>(blockIdx.x) * kSampleThreads + threadIdx.x), first(blockIdx.y), end(p.channels) {
    if (!p.channels_last) return;
    first = at % p.channels;
    end = first + 1;
    at /= p.channels;
  }
};

// Threads along points, blocks of y along channels where points alone make few blocks.
inline device::LaunchConfig SampleConfig(int64_t points, int64_t channels) {
  constexpr int64_t kEnoughBlocks = 1024, kMostRows = 65535;
  const int64_t blocks = (points + kSampleThreads - 1) / kSampleThreads;
  const int64_t rows = kEnoughBlocks / blocks + 1;
  const int64_t most = channels < kMostRows ? channels : kMostRows;
  return {.grid = {static_cast<unsigned>(blocks), static_cast<unsigned>(rows < most ? rows : most)},
          .block = {kSampleThreads},
          .programmatic = true};
}

// For SampleThread.
inline device::LaunchConfig SampleConfig(const GridSample& p) {
  const int64_t points = p.batch * p.points;
  return p.channels_last ? SampleConfig(points * p.channels, 1) : SampleConfig(points, p.channels);
}

}  // namespace cudaep::kernels
