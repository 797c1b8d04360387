#include "kernels/movement/index_tuples.cuh"
#include "kernels/movement/strided_source.cuh"

namespace cudaep::kernels {
namespace {

template <class Unit, class Index>
struct RowSource {
  const Unit* data;
  GatherIndices indices;
  int64_t axis;
  int64_t row_units;
  IndexDivider<Index> row, count;

  struct Cursor {
    const Unit* pointer;  // null inside a row of zeros
    Index index;
    Index row_left;

    __device__ __forceinline__ Unit Load() const { return pointer != nullptr ? *pointer : Unit{}; }
    __device__ __forceinline__ void Step(const RowSource&) {
      if (pointer != nullptr) ++pointer;
    }
    __device__ __forceinline__ void Next(const RowSource& source) {
      ++index;
      if (--row_left != 0) {
        Step(source);
      } else {
        *this = source.At(index);
      }
    }
  };
  __device__ __forceinline__ Cursor At(Index i) const {
    Index column, k;
    const Index outer = count.DivideWithRemainder(row.DivideWithRemainder(i, &column), &k);
    const int64_t position = WithinAxis(ReadIndex(indices, static_cast<int64_t>(k)), axis);
    Cursor cursor{nullptr, i, static_cast<Index>(row.divisor) - column};
    if (position >= 0) cursor.pointer = data + (static_cast<int64_t>(outer) * axis + position) * row_units + column;
    return cursor;
  }
};

constexpr int kElements = 4;  // of a thread, whose loads are all asked for before the first is waited for

template <class Unit, class Index>
__global__ void __launch_bounds__(kCopyThreads)
    GatherElementsKernel(__grid_constant__ const StridedView<Index> base, GatherIndices indices, int64_t axis,
                         int64_t axis_stride, const Unit* data, Unit* out, Index units) {
  device::GridDependencyWait();
  const Index first = static_cast<Index>(blockIdx.x) * kElements * kCopyThreads + threadIdx.x;
  int64_t number[kElements], position[kElements];
#pragma unroll
  for (int j = 0; j < kElements; ++j) {
    number[j] = static_cast<int64_t>(device::Min<Index>(first + j * kCopyThreads, units - 1));
  }
  ReadIndices(indices, number, position);
  Unit unit[kElements];
#pragma unroll
  for (int j = 0; j < kElements; ++j) {
    Index row_left;
    const Unit* const row = data + base.Offset(static_cast<Index>(number[j]), &row_left);
    const int64_t at = WithinAxis(position[j], axis);
    unit[j] = at >= 0 ? row[at * axis_stride] : Unit{};
  }
#pragma unroll
  for (int j = 0; j < kElements; ++j) {
    if (first + j * kCopyThreads < units) out[first + j * kCopyThreads] = unit[j];
  }
}

template <class Unit, class Index>
Status LaunchElements(const GatherElementsShape& shape, const void* data, GatherIndices indices, void* out,
                      device::Stream stream) {
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(shape.base.units, kElements * kCopyThreads));
  config.block.x = kCopyThreads;
  config.programmatic = true;
  return device::Launch(GatherElementsKernel<Unit, Index>, config, stream, MakeStridedView<Index>(shape.base, 1),
                        indices, shape.axis, shape.axis_stride, static_cast<const Unit*>(data), static_cast<Unit*>(out),
                        static_cast<Index>(shape.base.units));
}

}  // namespace

Status LaunchGather(const GatherShape& shape, const void* data, GatherIndices indices, void* out,
                    device::Stream stream) {
  const int64_t bytes = shape.outer * shape.count * shape.row_bytes;
  if (bytes == 0) return Status::Ok();
  const int unit_bytes = std::min({WidestUnit(shape.row_bytes), WidestUnit(data), WidestUnit(out)});
  const int64_t row_units = shape.row_bytes / unit_bytes;
  return VisitRowsVariant(unit_bytes, bytes / unit_bytes, row_units, [&]<class Variant>(Variant) {
    using Index = typename Variant::Index;
    using Unit = typename Variant::Unit;
    const RowSource<Unit, Index> source{
        static_cast<const Unit*>(data),  indices, shape.axis, row_units, IndexDivider<Index>(row_units),
        IndexDivider<Index>(shape.count)};
    return LaunchCopy<Variant>(source, out, bytes / unit_bytes, stream);
  });
}

Status LaunchGatherElements(const GatherElementsShape& shape, const void* data, GatherIndices indices, void* out,
                            device::Stream stream) {
  if (shape.base.units == 0) return Status::Ok();
  const int alignment = std::min(WidestUnit(data), WidestUnit(out));
  return VisitUnit(shape.elem_bytes, alignment, [&]<class Unit>() {
    return FitsIndex(shape.base.units) ? LaunchElements<Unit, uint32_t>(shape, data, indices, out, stream)
                                       : LaunchElements<Unit, uint64_t>(shape, data, indices, out, stream);
  });
}

}  // namespace cudaep::kernels
