#include <cmath>
#include <cstring>

#include "core/data_type_traits.h"
#include "kernels/common/units.h"
#include "kernels/index_limit.h"
#include "kernels/pack.h"
#include "kernels/resize/planes.cuh"
#include "kernels/resize/resize_walk.cuh"

namespace cudaep::kernels {
namespace {

__device__ __forceinline__ int64_t NearestIndex(NearestMode mode, float coordinate) {
  const float floor = floorf(coordinate), fraction = coordinate - floor;
  const bool up = mode == NearestMode::kCeil               ? fraction > 0.0f
                  : mode == NearestMode::kRoundPreferFloor ? fraction > 0.5f
                  : mode == NearestMode::kRoundPreferCeil  ? fraction >= 0.5f
                                                           : false;
  return static_cast<int64_t>(floor) + up;
}

// The input index of output `out` along a dimension; `*outside` is set where there is none.
__device__ __forceinline__ int64_t SourceOf(const ResizeDim& dim, int64_t out, bool* outside) {
  if (!dim.scaled) return out;
  const float coordinate = SourceCoordinate(dim, out);
  *outside |= IsOutside(dim, coordinate);
  return ClampToInput(dim, NearestIndex(dim.nearest, coordinate));
}

template <class T, int kPack, class Index>
__global__ void __launch_bounds__(kResizeThreads)
    NearestKernel(const T* x, T* y, T extrapolation, __grid_constant__ const ResizeArgs<Index> args) {
  device::GridDependencyWait();
  const Index thread = static_cast<Index>(blockIdx.x) * kResizeThreads + threadIdx.x;
  if (thread >= args.threads) return;
  Index rest = thread;
  const int64_t first = static_cast<int64_t>(SplitCoordinate(args, 0, &rest)) * kPack;
  bool outside = false;
  int64_t offset = 0;
  for (int d = 1; d < args.shape.rank; ++d) {
    const int64_t coordinate = static_cast<int64_t>(SplitCoordinate(args, d, &rest));
    offset += SourceOf(args.shape.dim[d], coordinate, &outside) * args.in_stride[d];
  }
  Pack<T, kPack> pack;
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    bool outside_here = outside;
    const int64_t source = offset + SourceOf(args.shape.dim[0], first + k, &outside_here);
    pack.value[k] = args.shape.extrapolate && outside_here ? extrapolation : x[source];
  }
  StorePack<kPack>(y + static_cast<int64_t>(thread) * kPack, pack);
}

// Rows and columns of planes; -1 is none.
template <class T>
__global__ void __launch_bounds__(kResizeThreads)
    NearestPlanesKernel(const T* x, T* y, T extrapolation, bool extrapolate, __grid_constant__ const PlaneGrid grid) {
  __shared__ int32_t table[kResizeThreads];
  const auto source_of = [&](const ResizeDim& dim, int32_t out) {
    bool outside = false;
    const int64_t source = SourceOf(dim, out, &outside);
    return extrapolate && outside ? -1 : static_cast<int32_t>(source);
  };
  const PlanePlace at = LocatePlane(grid);
  FillRowTable(grid, at, [&](int i, int32_t row) { table[i] = source_of(grid.row, row); });
  device::GridDependencyWait();
  if (at.column >= grid.out_columns) return;
  int32_t offset[kPlaneColumns];
#pragma unroll
  for (int k = 0; k < kPlaneColumns; ++k) {
    uint32_t element;
    const uint32_t out = grid.inner.DivideWithRemainder(static_cast<uint32_t>(at.column + k), &element);
    const int32_t source = at.column + k < grid.out_columns ? source_of(grid.column, static_cast<int32_t>(out)) : -1;
    offset[k] = source < 0 ? -1 : source * static_cast<int32_t>(grid.inner.divisor) + static_cast<int32_t>(element);
  }
  const T* from = x + at.plane * grid.in_plane;
  T* to = y + at.plane * grid.out_plane;
#pragma unroll 1
  for (int64_t plane = at.plane; plane < at.plane_end; ++plane) {
    Pack<T, kPlaneColumns> value;
    int32_t held = 0;
#pragma unroll 1
    for (int32_t row = at.row; row < at.row_end; ++row) {
      const int32_t source = table[row - at.block_row];
      if (row == at.row || source != held) {
        const int32_t line = source * grid.in_columns;
#pragma unroll
        for (int k = 0; k < kPlaneColumns; ++k) {
          value.value[k] = source < 0 || offset[k] < 0 ? extrapolation : from[line + offset[k]];
        }
        held = source;
      }
      StoreColumns(grid, to + static_cast<int64_t>(row) * grid.out_columns, at.column, value);
    }
    from += grid.in_plane;
    to += grid.out_plane;
  }
}

// Channels that lie last, in whole packs: a thread has kPacks of them at one position of the output, as many apart as
// there are threads at a position.
struct PixelGrid {
  ResizeDim row, column;
  FastDivider lanes, columns, rows;  // of the output; lanes: threads at a position
  uint32_t threads;
};

template <int kPacks>
__global__ void __launch_bounds__(kResizeThreads)
    NearestPixelsKernel(const Unit16* x, Unit16* y, __grid_constant__ const PixelGrid grid) {
  device::GridDependencyWait();
  const uint32_t thread = blockIdx.x * kResizeThreads + threadIdx.x;
  if (thread >= grid.threads) return;
  uint32_t lane, column, row;
  const uint32_t pixel = grid.lanes.DivideWithRemainder(thread, &lane);
  const int64_t plane = grid.rows.DivideWithRemainder(grid.columns.DivideWithRemainder(pixel, &column), &row);
  bool outside = false;
  const int64_t from_row = SourceOf(grid.row, row, &outside), from = SourceOf(grid.column, column, &outside);
  const int64_t lanes = grid.lanes.divisor;
  x += ((plane * grid.row.in + from_row) * grid.column.in + from) * (lanes * kPacks) + lane;
  y += pixel * (lanes * kPacks) + lane;
  Unit16 value[kPacks];
#pragma unroll
  for (int k = 0; k < kPacks; ++k) value[k] = x[k * lanes];
#pragma unroll
  for (int k = 0; k < kPacks; ++k) y[k * lanes] = value[k];
}

// `*launched` stays false for other forms.
Status LaunchPixels(const ResizeShape& shape, size_t elem_bytes, const void* x, void* y, device::Stream stream,
                    bool* launched) {
  const std::optional<ResizePlanes> planes = AsPlanes(shape);
  const bool aligned = IsAligned(x, sizeof(Unit16)) && IsAligned(y, sizeof(Unit16));
  if (shape.extrapolate || !planes || !aligned || shape.dim[0].scaled) return Status::Ok();
  constexpr int kMany = 4;
  const int64_t row_bytes = planes->inner * static_cast<int64_t>(elem_bytes);
  const int64_t packs = row_bytes / int64_t{sizeof(Unit16)};
  if (row_bytes % int64_t{sizeof(Unit16)} != 0 || packs == 0) return Status::Ok();
  const bool many = packs % kMany == 0;
  const int64_t lanes = many ? packs / kMany : packs, threads = OutputElems(shape) / planes->inner * lanes;
  if (threads == 0 || threads > INT32_MAX - int64_t{kResizeThreads}) return Status::Ok();
  *launched = true;
  const PixelGrid grid{.row = planes->row,
                       .column = planes->column,
                       .lanes = FastDivider(static_cast<uint32_t>(lanes)),
                       .columns = FastDivider(static_cast<uint32_t>(planes->column.out)),
                       .rows = FastDivider(static_cast<uint32_t>(planes->row.out)),
                       .threads = static_cast<uint32_t>(threads)};
  return device::Launch(many ? NearestPixelsKernel<kMany> : NearestPixelsKernel<1>, ResizeConfig(threads), stream,
                        static_cast<const Unit16*>(x), static_cast<Unit16*>(y), grid);
}

template <class T, int kPack, class Index>
Status LaunchVariant(const ResizeShape& shape, T extrapolation, const void* x, void* y, device::Stream stream) {
  const ResizeArgs<Index> args = MakeResizeArgs<Index>(shape, kPack);
  return device::Launch(NearestKernel<T, kPack, Index>, ResizeConfig(static_cast<int64_t>(args.threads)), stream,
                        static_cast<const T*>(x), static_cast<T*>(y), extrapolation, args);
}

template <class T>
Status LaunchWidth(const ResizeShape& shape, const void* extrapolation, const void* x, void* y, device::Stream stream) {
  T value;
  std::memcpy(&value, extrapolation, sizeof(T));
  const int64_t elems = OutputElems(shape);
  if (elems == 0) return Status::Ok();
  if constexpr (!kIsSplit<T>) {
    PlaneGrid grid;
    device::LaunchConfig config;
    const std::optional<ResizePlanes> planes = AsPlanes(shape);
    if (planes.has_value() && MakePlaneGrid(*planes, sizeof(T), y, &grid, &config)) {
      return device::Launch(NearestPlanesKernel<T>, config, stream, static_cast<const T*>(x), static_cast<T*>(y), value,
                            shape.extrapolate, grid);
    }
    constexpr int kPack = PackElems(sizeof(T)) > 4 ? 4 : PackElems(sizeof(T));
    if (FitsIndex(elems) && shape.dim[0].out % kPack == 0 && IsAligned(y, kPack * sizeof(T))) {
      return LaunchVariant<T, kPack, uint32_t>(shape, value, x, y, stream);
    }
    if (FitsIndex(elems)) return LaunchVariant<T, 1, uint32_t>(shape, value, x, y, stream);
  }
  return LaunchVariant<T, 1, uint64_t>(shape, value, x, y, stream);
}

template <class T>
T FromFloat(float value) {
  if constexpr (std::is_same_v<ComputeType<T>, float>) {
    return Store<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

// The extrapolation value as an element; false for a type that is not offered.
bool MakeElement(float value, DataType type, std::byte* element) {
  if (type == DataType::kComplex64) {
    std::memcpy(element, &value, sizeof(value));
    return true;
  }
  if (type == DataType::kComplex128) {
    const double real = value;
    std::memcpy(element, &real, sizeof(real));
    return true;
  }
  constexpr DataTypeSet kElements = kNumericTypes | DataTypeSet(DataType::kBool);
  return VisitType<kElements, bool>(type, false, [&]<class T>() {
    const T converted = FromFloat<T>(value);
    std::memcpy(element, &converted, sizeof(T));
    return true;
  });
}

}  // namespace

Status LaunchResizeNearest(const ResizeShape& shape, DataType type, const void* x, void* y, device::Stream stream) {
  alignas(16) std::byte extrapolation[16] = {};
  if (!MakeElement(shape.extrapolation, type, extrapolation)) {
    return NotSupported("resize of element type ", DataTypeName(type));
  }
  const int alignment = std::min(WidestUnit(x), WidestUnit(y));
  bool launched = false;
  CUDAEP_RETURN_IF_ERROR(LaunchPixels(shape, SizeOf(type), x, y, stream, &launched));
  if (launched) return Status::Ok();
  return VisitUnit(static_cast<int>(SizeOf(type)), alignment,
                   [&]<class Unit>() { return LaunchWidth<Unit>(shape, extrapolation, x, y, stream); });
}

}  // namespace cudaep::kernels
