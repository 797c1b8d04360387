#include "kernels/movement/scatter_target.cuh"

namespace cudaep::kernels {
namespace {

__global__ void __launch_bounds__(kScatterThreads)
    TargetKernel(__grid_constant__ const ScatterTarget<uint64_t> target, int64_t count, int64_t* rows) {
  device::GridDependencyWait();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kScatterThreads + threadIdx.x;
  if (i < count) rows[i] = target.Row(static_cast<uint64_t>(i));
}

// Each thread takes one column of the updates of a row, if its place is where they begin.
template <class T>
__global__ void __launch_bounds__(kScatterThreads)
    SegmentKernel(const int64_t* rows, const int64_t* order, int64_t count, int64_t row_elems, const T* updates, T* out,
                  ScatterReduction reduction) {
  device::GridDependencyWait();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kScatterThreads + threadIdx.x;
  if (i >= count * row_elems) return;
  const int64_t first = i / row_elems, column = i - first * row_elems;
  const int64_t to = rows[order[first]];
  if (to < 0 || (first > 0 && rows[order[first - 1]] == to)) return;
  T* const place = out + to * row_elems + column;
  if constexpr (sizeof(T) == 16 || kIsSplit<T>) {
    int64_t last = first;
    while (last + 1 < count && rows[order[last + 1]] == to) ++last;
    *place = updates[order[last] * row_elems + column];
  } else {
    auto combined = Load(*place);
    for (int64_t k = first; k < count && rows[order[k]] == to; ++k) {
      combined = CombineUpdate(combined, Load(updates[order[k] * row_elems + column]), reduction);
    }
    *place = Store<T>(combined);
  }
}

}  // namespace

ScatterSorted PlanScatterSorted(const Scatter& scatter) {
  return {scatter, {.rows = scatter.count, .row_words = 1, .word_bytes = sizeof(int64_t)}};
}

Status LaunchScatterSorted(const ScatterSorted& plan, const Scatter& scatter, const void* updates, void* out,
                           void* scratch, device::Stream stream) {
  const int64_t elems = scatter.count * scatter.row_elems;
  if (elems == 0) return Status::Ok();
  auto* const rows = static_cast<int64_t*>(scratch);
  int64_t* const order = rows + scatter.count;
  CUDAEP_RETURN_IF_ERROR(device::Launch(TargetKernel, ScatterConfig(scatter.count), stream,
                                        MakeScatterTarget<uint64_t>(scatter), scatter.count, rows));
  CUDAEP_RETURN_IF_ERROR(LaunchSortRows(plan.sort, rows, order, order + scatter.count, stream));
  const auto launch = [&]<class T>() {
    return device::Launch(SegmentKernel<T>, ScatterConfig(elems), stream, rows, order, scatter.count, scatter.row_elems,
                          static_cast<const T*>(updates), static_cast<T*>(out), scatter.reduction);
  };
  const Status refused = NotSupported("reduction of ", DataTypeName(scatter.type));
  if (scatter.reduction != ScatterReduction::kNone) {
    return VisitType<kScatterReductionTypes>(scatter.type, refused, launch);
  }
  const int alignment = std::min(WidestUnit(updates), WidestUnit(out));
  return VisitUnit(static_cast<int>(SizeOf(scatter.type)), alignment, launch);
}

}  // namespace cudaep::kernels
