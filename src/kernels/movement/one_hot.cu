#include "kernels/movement/copy_kernel.cuh"
#include "kernels/movement/one_hot.h"

namespace cudaep::kernels {
namespace {

constexpr int64_t kNowhere = INT64_MIN;

template <class T>
__device__ __forceinline__ int64_t AsInteger(const void* indices, int64_t i) {
  const auto value = Load(static_cast<const T*>(indices)[i]);
  if constexpr (std::is_floating_point_v<ComputeType<T>>) {
    return value > -9.2e18f && value < 9.2e18f ? static_cast<int64_t>(value) : kNowhere;  // no NaN either
  } else {
    return static_cast<int64_t>(value);  // uint64 above int64 becomes negative: see below
  }
}

// The position on an axis of `depth`; kNowhere outside. One switch for all types: a kernel for each would be many.
__device__ __forceinline__ int64_t ReadHot(const void* indices, DataType type, int64_t i, int64_t depth) {
  int64_t index = kNowhere;
  switch (type) {
    case DataType::kInt64:
      index = AsInteger<int64_t>(indices, i);
      break;
    case DataType::kInt32:
      index = AsInteger<int32_t>(indices, i);
      break;
    case DataType::kInt16:
      index = AsInteger<int16_t>(indices, i);
      break;
    case DataType::kInt8:
      index = AsInteger<int8_t>(indices, i);
      break;
    case DataType::kUint64:
      index = AsInteger<uint64_t>(indices, i);
      if (index < 0) index = kNowhere;
      break;
    case DataType::kUint32:
      index = AsInteger<uint32_t>(indices, i);
      break;
    case DataType::kUint16:
      index = AsInteger<uint16_t>(indices, i);
      break;
    case DataType::kUint8:
      index = AsInteger<uint8_t>(indices, i);
      break;
    case DataType::kFloat:
      index = AsInteger<float>(indices, i);
      break;
    case DataType::kDouble:
      index = AsInteger<double>(indices, i);
      break;
    case DataType::kFloat16:
      index = AsInteger<Half>(indices, i);
      break;
    default:
      break;
  }
  return index < 0 ? index + depth : index;  // still negative when it was below -depth, kNowhere too
}

template <class Unit, class Index>
struct OneHotSource {
  const void* indices;  // null: the number of the row plus `diagonal`
  DataType type;
  int64_t diagonal;
  const Unit* values;  // null: zero and `one`
  Unit one;
  IndexDivider<Index> depth, inner;

  struct Cursor {
    Unit off, on;
    int64_t hot;
    Index position;  // on the axis
    Index slot;      // the index's number
    Index index;
    Index row_left;

    __device__ __forceinline__ Unit Load() const { return static_cast<int64_t>(position) == hot ? on : off; }
    __device__ __forceinline__ void Step(const OneHotSource& source) {
      if (source.inner.divisor == 1) {
        ++position;
      } else {
        hot = source.Hot(++slot);
      }
    }
    __device__ __forceinline__ void Next(const OneHotSource& source) {
      ++index;
      if (--row_left != 0) {
        Step(source);
      } else {
        *this = source.At(index);
      }
    }
  };
  __device__ __forceinline__ int64_t Hot(Index slot) const {
    const auto number = static_cast<int64_t>(slot);
    return indices != nullptr ? ReadHot(indices, type, number, static_cast<int64_t>(depth.divisor)) : number + diagonal;
  }
  __device__ __forceinline__ Cursor At(Index i) const {
    Cursor cursor;
    Index column;
    const Index outer = depth.DivideWithRemainder(inner.DivideWithRemainder(i, &column), &cursor.position);
    cursor.off = values != nullptr ? values[0] : Unit{};
    cursor.on = values != nullptr ? values[1] : one;
    cursor.slot = outer * static_cast<Index>(inner.divisor) + column;
    cursor.hot = Hot(cursor.slot);
    cursor.index = i;
    cursor.row_left = inner.divisor == 1 ? static_cast<Index>(depth.divisor) - cursor.position
                                         : static_cast<Index>(inner.divisor) - column;
    return cursor;
  }
};

Status LaunchHot(const OneHotShape& shape, const void* indices, DataType type, int64_t diagonal, const void* values,
                 uint64_t one, void* out, device::Stream stream) {
  const int64_t units = shape.outer * shape.depth * shape.inner;
  if (units == 0) return Status::Ok();
  const int alignment = std::min(WidestUnit(values), WidestUnit(out));
  return VisitCopyVariant(shape.elem_bytes, alignment, units, [&]<class Variant>(Variant) {
    using Unit = typename Variant::Unit;
    using Index = typename Variant::Index;
    OneHotSource<Unit, Index> source{indices,
                                     type,
                                     diagonal,
                                     static_cast<const Unit*>(values),
                                     {},
                                     IndexDivider<Index>(shape.depth),
                                     IndexDivider<Index>(shape.inner)};
    if constexpr (std::is_integral_v<Unit>) source.one = static_cast<Unit>(one);
    return LaunchCopy<Variant>(source, out, units, stream);
  });
}

}  // namespace

Status LaunchOneHot(const OneHotShape& shape, const void* indices, DataType index_type, const void* values, void* out,
                    device::Stream stream) {
  return LaunchHot(shape, indices, index_type, 0, values, 0, out, stream);
}

Status LaunchEye(int64_t rows, int64_t columns, int64_t k, int elem_bytes, uint64_t one, void* out,
                 device::Stream stream) {
  const int64_t diagonal = std::clamp(k, -rows, columns);
  return LaunchHot({.outer = rows, .depth = columns, .inner = 1, .elem_bytes = elem_bytes}, nullptr,
                   DataType::kUndefined, diagonal, nullptr, one, out, stream);
}

}  // namespace cudaep::kernels
