#include "kernels/movement/copy_kernel.cuh"
#include "kernels/movement/one_hot.h"

namespace cudaep::kernels {
namespace {

constexpr int64_t kNowhere = INT64_MIN;

template <class T>
__device__ __forceinline__ int64_t AsInteger(T index) {
  const auto value = Load(index);
  if constexpr (std::is_floating_point_v<ComputeType<T>>) {
    return value > -9.2e18f && value < 9.2e18f ? static_cast<int64_t>(value) : kNowhere;  // no NaN either
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    return value > uint64_t{INT64_MAX} ? kNowhere : static_cast<int64_t>(value);
  } else {
    return static_cast<int64_t>(value);
  }
}

// The positions on an axis of `depth` that the indices in `slots` name; negative outside. One switch for all types, a
// kernel for each would be many; and all loads before the first conversion.
template <int kCount, class Index>
__device__ __forceinline__ void ReadHot(const void* indices, DataType type, const Index (&slot)[kCount], int64_t depth,
                                        int64_t (&hot)[kCount]) {
  const auto read = [&]<class T>() {
    T index[kCount];
#pragma unroll
    for (int j = 0; j < kCount; ++j) index[j] = static_cast<const T*>(indices)[slot[j]];
#pragma unroll
    for (int j = 0; j < kCount; ++j) hot[j] = AsInteger(index[j]);
  };
  switch (type) {
    case DataType::kInt64:
      read.template operator()<int64_t>();
      break;
    case DataType::kInt32:
      read.template operator()<int32_t>();
      break;
    case DataType::kInt16:
      read.template operator()<int16_t>();
      break;
    case DataType::kInt8:
      read.template operator()<int8_t>();
      break;
    case DataType::kUint64:
      read.template operator()<uint64_t>();
      break;
    case DataType::kUint32:
      read.template operator()<uint32_t>();
      break;
    case DataType::kUint16:
      read.template operator()<uint16_t>();
      break;
    case DataType::kUint8:
      read.template operator()<uint8_t>();
      break;
    case DataType::kFloat:
      read.template operator()<float>();
      break;
    case DataType::kDouble:
      read.template operator()<double>();
      break;
    case DataType::kFloat16:
      read.template operator()<Half>();
      break;
    default:
      for (int64_t& at : hot) at = kNowhere;
      break;
  }
  // Still negative when it was below -depth, kNowhere too.
  for (int64_t& at : hot) at = at < 0 ? at + depth : at;
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
    if (indices == nullptr) return static_cast<int64_t>(slot) + diagonal;
    const Index slots[] = {slot};
    int64_t found[1];
    ReadHot(indices, type, slots, static_cast<int64_t>(depth.divisor), found);
    return found[0];
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

constexpr int kRowPacks = 4;  // of a thread

// The same along the last dimension, whose rows are whole packs.
template <class Unit, int kPack>
__global__ void __launch_bounds__(kCopyThreads)
    OneHotRowsKernel(__grid_constant__ const OneHotSource<Unit, uint32_t> source, FastDivider row_packs, Unit* out,
                     uint32_t packs) {
  device::GridDependencyWait();
  const Unit off = source.values != nullptr ? source.values[0] : Unit{};
  const Unit on = source.values != nullptr ? source.values[1] : source.one;
  const uint32_t first = blockIdx.x * kRowPacks * kCopyThreads + threadIdx.x;
  uint32_t row[kRowPacks], column[kRowPacks];
  int64_t hot[kRowPacks];
#pragma unroll
  for (uint32_t j = 0; j < kRowPacks; ++j) {
    const uint32_t pack = device::Min(first + j * kCopyThreads, packs - 1);
    row[j] = row_packs.DivideWithRemainder(pack, &column[j]);
    hot[j] = row[j] + source.diagonal;
  }
  if (source.indices != nullptr) ReadHot(source.indices, source.type, row, int64_t{source.depth.divisor}, hot);
  Pack<Unit, kPack> cold;
#pragma unroll
  for (int k = 0; k < kPack; ++k) cold.value[k] = off;
#pragma unroll
  for (uint32_t j = 0; j < kRowPacks; ++j) {
    const uint32_t pack = first + j * kCopyThreads;
    if (pack >= packs) continue;
    const int64_t at = hot[j] - int64_t{column[j] * kPack};
    if (at < 0 || at >= kPack) {
      StorePack(out + int64_t{pack} * kPack, cold);
    } else {
      Pack<Unit, kPack> warm;
#pragma unroll
      for (int k = 0; k < kPack; ++k) warm.value[k] = k == at ? on : off;
      StorePack(out + int64_t{pack} * kPack, warm);
    }
  }
}

template <class Unit, int kPack>
Status LaunchRows(const OneHotSource<Unit, uint32_t>& source, int64_t units, void* out, device::Stream stream) {
  const auto packs = static_cast<uint32_t>(units / kPack);
  device::LaunchConfig config;
  config.grid.x = CeilDiv<uint32_t>(packs, kRowPacks * kCopyThreads);
  config.block.x = kCopyThreads;
  config.programmatic = true;
  return device::Launch(OneHotRowsKernel<Unit, kPack>, config, stream, source,
                        FastDivider(source.depth.divisor / kPack), static_cast<Unit*>(out), packs);
}

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
    if constexpr (std::is_same_v<Index, uint32_t>) {
      constexpr int kPack = Variant::kPack;
      const bool whole_rows = shape.inner == 1 && shape.depth % kPack == 0 && IsAligned(out, kPackBytes);
      if (whole_rows && units / kPack >= kManyCopyPacks) return LaunchRows<Unit, kPack>(source, units, out, stream);
    }
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
