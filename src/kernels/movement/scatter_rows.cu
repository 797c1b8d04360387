#include <algorithm>

#include "core/checked_math.h"
#include "device/launch.h"
#include "kernels/common/units.h"
#include "kernels/movement/scatter_rows.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 20;

template <class Unit>
__global__ void __launch_bounds__(kThreads)
    ScatterRowsKernel(__grid_constant__ const ScatterRows shape, int64_t row_units, const Unit* update,
                      const int64_t* positions, Unit* cache) {
  device::GridDependencyWait();
  const int64_t units = shape.batch * shape.outer * shape.count * row_units;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < units; i += step) {
    const int64_t row = i / row_units, column = i - row * row_units;
    const int64_t slice = row / shape.count;
    int64_t position = row - slice * shape.count;
    if (positions != nullptr) position += positions[slice / shape.outer];
    if (shape.circular != 0) {
      position %= shape.length;
      if (position < 0) position += shape.length;
    }
    if (position >= 0 && position < shape.length) {
      cache[(slice * shape.length + position) * row_units + column] = update[i];
    }
  }
}

template <class Unit>
Status LaunchUnits(const ScatterRows& shape, const void* update, const int64_t* positions, void* cache,
                   device::Stream stream) {
  const int64_t row_units = shape.row_bytes / static_cast<int64_t>(sizeof(Unit));
  const int64_t blocks = CeilDiv<int64_t>(shape.batch * shape.outer * shape.count * row_units, kThreads);
  const device::LaunchConfig config{
      .grid = {static_cast<unsigned>(std::min(blocks, kMostBlocks))}, .block = {kThreads}, .programmatic = true};
  return device::Launch(ScatterRowsKernel<Unit>, config, stream, shape, row_units, static_cast<const Unit*>(update),
                        positions, static_cast<Unit*>(cache));
}

}  // namespace

Status LaunchScatterRows(const ScatterRows& shape, const void* update, const int64_t* positions, void* cache,
                         device::Stream stream) {
  if (shape.batch * shape.outer * shape.count * shape.row_bytes == 0 || shape.length == 0) return Status::Ok();
  const int unit_bytes = std::min({WidestUnit(shape.row_bytes), WidestUnit(update), WidestUnit(cache)});
  return VisitUnit(unit_bytes,
                   [&]<class Unit>() { return LaunchUnits<Unit>(shape, update, positions, cache, stream); });
}

}  // namespace cudaep::kernels
