#include "kernels/common/units.h"
#include "kernels/movement/scatter_target.cuh"

namespace cudaep::kernels {
namespace {

template <class Unit, class Index>
__global__ void __launch_bounds__(kScatterThreads)
    ScatterKernel(__grid_constant__ const ScatterTarget<Index> target, IndexDivider<Index> row, const Unit* updates,
                  Unit* out, Index units) {
  device::GridDependencyWait();
  const Index i = static_cast<Index>(blockIdx.x) * kScatterThreads + threadIdx.x;
  if (i >= units) return;
  Index column;
  const Index update = row.DivideWithRemainder(i, &column);
  const Unit unit = updates[i];
  const int64_t to = target.Row(update);
  if (to >= 0) out[to * static_cast<int64_t>(row.divisor) + column] = unit;
}

template <class Unit>
Status LaunchUnits(const Scatter& scatter, int64_t row_units, const void* updates, void* out, device::Stream stream) {
  const int64_t units = scatter.count * row_units;
  const auto launch = [&]<class Index>() {
    return device::Launch(ScatterKernel<Unit, Index>, ScatterConfig(units), stream, MakeScatterTarget<Index>(scatter),
                          IndexDivider<Index>(row_units), static_cast<const Unit*>(updates), static_cast<Unit*>(out),
                          static_cast<Index>(units));
  };
  return FitsIndex(units) ? launch.template operator()<uint32_t>() : launch.template operator()<uint64_t>();
}

}  // namespace

Status LaunchScatter(const Scatter& scatter, const void* updates, void* out, device::Stream stream) {
  if (scatter.count * scatter.row_elems == 0) return Status::Ok();
  if (scatter.reduction != ScatterReduction::kNone) return LaunchScatterAtomic(scatter, updates, out, stream);
  const int64_t row_bytes = scatter.row_elems * static_cast<int64_t>(SizeOf(scatter.type));
  const int unit_bytes = std::min({WidestUnit(row_bytes), WidestUnit(updates), WidestUnit(out)});
  return VisitUnit(unit_bytes, [&]<class Unit>() {
    return LaunchUnits<Unit>(scatter, row_bytes / unit_bytes, updates, out, stream);
  });
}

}  // namespace cudaep::kernels
