#include "kernels/common/units.h"
#include "kernels/movement/scatter_target.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kUnits = 4;  // of a thread, whose loads are all asked for before the first is waited for

template <class Unit, class Index>
__global__ void __launch_bounds__(kScatterThreads)
    ScatterKernel(__grid_constant__ const ScatterTarget<Index> target, IndexDivider<Index> row, const Unit* updates,
                  Unit* out, Index units) {
  device::GridDependencyWait();
  const Index first = static_cast<Index>(blockIdx.x) * kUnits * kScatterThreads + threadIdx.x;
  Index column[kUnits];
  int64_t update[kUnits], to[kUnits];
  Unit unit[kUnits];
#pragma unroll
  for (int j = 0; j < kUnits; ++j) {
    const Index i = device::Min<Index>(first + j * kScatterThreads, units - 1);
    update[j] = static_cast<int64_t>(row.DivideWithRemainder(i, &column[j]));
    unit[j] = updates[i];
  }
  target.Rows(update, to);
#pragma unroll
  for (int j = 0; j < kUnits; ++j) {
    if (to[j] < 0 || first + j * kScatterThreads >= units) continue;
    out[to[j] * static_cast<int64_t>(row.divisor) + column[j]] = unit[j];
  }
}

template <class Unit>
Status LaunchUnits(const Scatter& scatter, int64_t row_units, const void* updates, void* out, device::Stream stream) {
  const int64_t units = scatter.count * row_units;
  const auto launch = [&]<class Index>() {
    return device::Launch(ScatterKernel<Unit, Index>, ScatterConfig(CeilDiv<int64_t>(units, kUnits)), stream,
                          MakeScatterTarget<Index>(scatter), IndexDivider<Index>(row_units),
                          static_cast<const Unit*>(updates), static_cast<Unit*>(out), static_cast<Index>(units));
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
