#include "kernels/sample/grid_sample.h"
#include "kernels/sample/grid_sample_nearest.h"
#include "kernels/sample/sample_place.cuh"

namespace cudaep::kernels {
namespace {

// The pixels that a place reads along one dimension: `index` is -1 for a pixel that counts as 0.
template <class C, int kTaps>
struct Taps {
  int64_t index[kTaps];
  C weight[kTaps];
};

template <class C, int kTaps>
__device__ __forceinline__ Taps<C, kTaps> TapsAt(const GridSample& p, C at, int64_t size) {
  Taps<C, kTaps> taps;
  const int64_t first = FloorIndex(at) - (kTaps == 4 ? 1 : 0);
  const C f = at - std::floor(at);
  if constexpr (kTaps == 4) {
    constexpr C a = C(-0.75);
    const C g = C(1) - f;
    const auto outer = [&](C t) { return ((a * t - C(5) * a) * t + C(8) * a) * t - C(4) * a; };
    const auto inner = [&](C t) { return ((a + C(2)) * t - (a + C(3))) * t * t + C(1); };
    taps.weight[0] = outer(f + C(1));
    taps.weight[1] = inner(f);
    taps.weight[2] = inner(g);
    taps.weight[3] = outer(g + C(1));
  } else {
    taps.weight[0] = C(1) - f;
    taps.weight[1] = f;
  }
#pragma unroll
  for (int i = 0; i < kTaps; ++i) taps.index[i] = PaddedIndex(p, first + i, size);
  return taps;
}

template <class T, class C, int kTaps>
__device__ __forceinline__ C SumRow(const T* row, const Taps<C, kTaps>& taps) {
  C sum = 0;
#pragma unroll
  for (int i = 0; i < kTaps; ++i) {
    sum += taps.weight[i] * (taps.index[i] < 0 ? C(0) : static_cast<C>(Load(row[taps.index[i]])));
  }
  return sum;
}

template <class T, class C, int kTaps>
__device__ __forceinline__ C SumPlane(const T* plane, int64_t width, const Taps<C, kTaps>& down,
                                      const Taps<C, kTaps>& across) {
  C sum = 0;
#pragma unroll
  for (int i = 0; i < kTaps; ++i) {
    const bool outside = down.index[i] < 0;
    sum += down.weight[i] * (outside ? C(0) : SumRow(plane + down.index[i] * width, across));
  }
  return sum;
}

template <class T, int kTaps, int kRank>
__global__ void __launch_bounds__(kSampleThreads)
    InterpolateKernel(__grid_constant__ const GridSample p, DataType grid_type, const T* x, const void* grid, T* y) {
  using C = ComputeType<T>;
  device::GridDependencyWait();
  const SampleThread thread(p);
  const int64_t at = thread.at;
  if (at >= p.batch * p.points) return;
  const int64_t image = at / p.points, point = at - image * p.points;
  const auto taps_of = [&](int d) {
    const C value = GridValue<C>(grid, grid_type, at * kRank + (2 - d));
    return TapsAt<C, kTaps>(p, PixelOf(p, value, p.in[d]), p.in[d]);
  };
  Taps<C, kTaps> across = taps_of(2);
  const Taps<C, kTaps> down = taps_of(1);
  Taps<C, kTaps> deep{};
  if constexpr (kRank == 3) deep = taps_of(0);
  const int64_t step = PixelStep(p), width = p.in[2] * step, plane = p.in[1] * width;
#pragma unroll
  for (int i = 0; i < kTaps; ++i) across.index[i] *= step;
  for (int64_t channel = thread.first; channel < thread.end; channel += gridDim.y) {
    const T* const volume = x + ChannelOffset(p, image, channel, p.in[0] * p.in[1] * p.in[2]);
    C sum = 0;
    if constexpr (kRank == 2) {
      sum = SumPlane(volume, width, down, across);
    } else {
#pragma unroll
      for (int i = 0; i < kTaps; ++i) {
        const bool outside = deep.index[i] < 0;
        sum += deep.weight[i] * (outside ? C(0) : SumPlane(volume + deep.index[i] * plane, width, down, across));
      }
    }
    y[SampleOffset(p, image, channel, point)] = Store<T>(sum);
  }
}

template <class T, int kTaps>
Status LaunchTaps(const GridSample& p, DataType grid_type, const void* x, const void* grid, void* y,
                  device::Stream stream) {
  const device::LaunchConfig config = SampleConfig(p);
  auto kernel = InterpolateKernel<T, kTaps, 2>;
  if (p.rank == 3) kernel = InterpolateKernel<T, kTaps, 3>;
  return device::Launch(kernel, config, stream, p, grid_type, static_cast<const T*>(x), grid, static_cast<T*>(y));
}

}  // namespace

Status LaunchGridSample(const GridSample& problem, DataType type, DataType grid_type, const void* x, const void* grid,
                        void* y, device::Stream stream) {
  if (problem.output_elems() == 0) return Status::Ok();
  if (problem.mode == SampleMode::kNearest) {
    return LaunchGridSampleNearest(problem, SizeOf(type), grid_type, x, grid, y, stream);
  }
  return VisitType<kSampleTypes>(
      type, NotSupported("interpolation of element type ", DataTypeName(type)), [&]<class T>() {
        return problem.mode == SampleMode::kLinear ? LaunchTaps<T, 2>(problem, grid_type, x, grid, y, stream)
                                                   : LaunchTaps<T, 4>(problem, grid_type, x, grid, y, stream);
      });
}

}  // namespace cudaep::kernels
