#include "kernels/movement/gather.h"
#include "kernels/movement/strided_source.cuh"

namespace cudaep::kernels {
namespace {

// The index with number i as a position on the axis; -1 when it lies outside.
__device__ __forceinline__ int64_t ReadIndex(const GatherIndices& indices, int64_t i, int64_t axis) {
  int64_t index =
      indices.wide ? static_cast<const int64_t*>(indices.pointer)[i] : static_cast<const int32_t*>(indices.pointer)[i];
  if (index < 0) index += axis;
  return index >= 0 && index < axis ? index : -1;
}

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
    const int64_t position = ReadIndex(indices, static_cast<int64_t>(k), axis);
    Cursor cursor{nullptr, i, static_cast<Index>(row.divisor) - column};
    if (position >= 0) cursor.pointer = data + (static_cast<int64_t>(outer) * axis + position) * row_units + column;
    return cursor;
  }
};

template <class Unit, class Index>
struct ElementSource {
  const Unit* data;
  GatherIndices indices;
  int64_t axis;
  int64_t axis_stride;
  StridedView<Index> base;

  struct Cursor {
    const Unit* pointer;  // to the element with index 0
    int64_t position;
    int64_t axis_stride;
    Index index;
    Index row_left;

    __device__ __forceinline__ Unit Load() const { return position >= 0 ? pointer[position * axis_stride] : Unit{}; }
    __device__ __forceinline__ void Step(const ElementSource& source) {
      pointer += source.base.stride[0];
      position = ReadIndex(source.indices, static_cast<int64_t>(++index), source.axis);
    }
    __device__ __forceinline__ void Next(const ElementSource& source) {
      if (--row_left != 0) {
        Step(source);
      } else {
        *this = source.At(index + 1);
      }
    }
  };
  __device__ __forceinline__ Cursor At(Index i) const {
    Index row_left;
    const Unit* const pointer = data + base.Offset(i, &row_left);
    return {pointer, ReadIndex(indices, static_cast<int64_t>(i), axis), axis_stride, i, row_left};
  }
};

}  // namespace

Status LaunchGather(const GatherShape& shape, const void* data, GatherIndices indices, void* out,
                    device::Stream stream) {
  const int64_t bytes = shape.outer * shape.count * shape.row_bytes;
  if (bytes == 0) return Status::Ok();
  const int unit_bytes = std::min({WidestUnit(shape.row_bytes), WidestUnit(data), WidestUnit(out)});
  return VisitCopyVariant(unit_bytes, bytes / unit_bytes, [&]<class Variant>(Variant) {
    using Index = typename Variant::Index;
    using Unit = typename Variant::Unit;
    const int64_t row_units = shape.row_bytes / unit_bytes;
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
  return VisitCopyVariant(shape.elem_bytes, alignment, shape.base.units, [&]<class Variant>(Variant) {
    using Index = typename Variant::Index;
    using Unit = typename Variant::Unit;
    const ElementSource<Unit, Index> source{static_cast<const Unit*>(data), indices, shape.axis, shape.axis_stride,
                                            MakeStridedView<Index>(shape.base, 1)};
    return LaunchCopy<Variant>(source, out, shape.base.units, stream);
  });
}

}  // namespace cudaep::kernels
