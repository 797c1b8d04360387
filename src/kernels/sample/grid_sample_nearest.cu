#include "kernels/common/units.h"
#include "kernels/sample/grid_sample_nearest.h"
#include "kernels/sample/sample_place.cuh"

namespace cudaep::kernels {
namespace {

// Typed by the width of elements; C is what places are computed in.
template <class T, class C>
__global__ void __launch_bounds__(kSampleThreads)
    NearestKernel(__grid_constant__ const GridSample p, DataType grid_type, const T* x, const void* grid, T* y) {
  device::GridDependencyWait();
  const SampleThread thread(p);
  const int64_t at = thread.at;
  if (at >= p.batch * p.points) return;
  const int64_t image = at / p.points, point = at - image * p.points;
  int64_t offset = 0;
  bool inside = true;
  for (int d = 3 - p.rank; d < 3; ++d) {
    const C value = GridValue<C>(grid, grid_type, at * p.rank + (2 - d));
    const int64_t index = PaddedIndex(p, FloorIndex(PixelOf(p, value, p.in[d])), p.in[d]);
    inside = inside && index >= 0;
    offset = offset * p.in[d] + index;
  }
  const int64_t volume = p.in[0] * p.in[1] * p.in[2];
  offset *= PixelStep(p);
  for (int64_t channel = thread.first; channel < thread.end; channel += gridDim.y) {
    y[SampleOffset(p, image, channel, point)] = inside ? x[ChannelOffset(p, image, channel, volume) + offset] : T{};
  }
}

template <class T>
Status LaunchAs(const GridSample& p, DataType grid_type, const void* x, const void* grid, void* y,
                device::Stream stream) {
  const device::LaunchConfig config = SampleConfig(p);
  auto kernel = NearestKernel<T, float>;
  if (grid_type == DataType::kDouble) kernel = NearestKernel<T, double>;
  return device::Launch(kernel, config, stream, p, grid_type, static_cast<const T*>(x), grid, static_cast<T*>(y));
}

}  // namespace

Status LaunchGridSampleNearest(const GridSample& problem, size_t element_bytes, DataType grid_type, const void* x,
                               const void* grid, void* y, device::Stream stream) {
  const int alignment = std::min(WidestUnit(x), WidestUnit(y));
  return VisitUnit(static_cast<int>(element_bytes), alignment,
                   [&]<class Unit>() { return LaunchAs<Unit>(problem, grid_type, x, grid, y, stream); });
}

}  // namespace cudaep::kernels
