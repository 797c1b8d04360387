#include <limits>

#include "kernels/resize/interpolate.cuh"
#include "kernels/resize/planes.cuh"

namespace cudaep::kernels::resize {
namespace {

// The taps of one output along a dimension: inputs [first, first + kTaps), those outside it at its edge.
template <int kTaps>
struct FixedTaps {
  int32_t first = 0;
  float weight[kTaps] = {};
};

template <int kTaps>
__device__ __forceinline__ FixedTaps<kTaps> FixTaps(const Interpolation& how, const ResizeDim& dim, int32_t out) {
  FixedTaps<kTaps> fixed;
  if (!dim.scaled) {
    fixed.first = out;
    fixed.weight[0] = 1.0f;
    return fixed;
  }
  const Taps<float> taps = FindTaps<float>(how, dim, SourceCoordinate(dim, out));
  fixed.first = static_cast<int32_t>(taps.first);
#pragma unroll
  for (int t = 0; t < kTaps; ++t) {
    if (t < taps.count) fixed.weight[t] = WeightAt(how, dim, taps.center, taps.first + t) * taps.norm;
  }
  return fixed;
}

// The taps of one output along a row. None is without weight: that of an infinity would be NaN. Such a tap reads what
// the heaviest reads, and takes half of its weight.
template <int kTaps>
struct ColumnTaps {
  int32_t offset[kTaps] = {};
  float weight[kTaps] = {};
};

template <int kTaps>
__device__ __forceinline__ void FillColumn(const Interpolation& how, const PlaneGrid& grid, int32_t column,
                                           ColumnTaps<kTaps>& filled) {
  uint32_t element;
  const uint32_t out = grid.inner.DivideWithRemainder(static_cast<uint32_t>(column), &element);
  const FixedTaps<kTaps> taps = FixTaps<kTaps>(how, grid.column, static_cast<int32_t>(out));
  int heaviest = 0;
#pragma unroll
  for (int t = 0; t < kTaps; ++t) {
    const int32_t from = ClampTo32(grid.column, taps.first + t);
    filled.offset[t] = from * static_cast<int32_t>(grid.inner.divisor) + static_cast<int32_t>(element);
    filled.weight[t] = taps.weight[t];
    if (fabsf(taps.weight[t]) > fabsf(filled.weight[heaviest])) heaviest = t;
  }
#pragma unroll
  for (int t = 0; t < kTaps; ++t) {
    if (taps.weight[t] != 0.0f || t == heaviest) continue;
    filled.offset[t] = filled.offset[heaviest];
    filled.weight[t] = filled.weight[heaviest] *= 0.5f;
  }
}

// The thread's columns of kTaps neighbouring input rows, interpolated along the row: those that an output row needs.
// Rows come in ascending order, nearly always, and most of them are needed again.
template <class T, int kTaps>
class HeldRows {
 public:
  // `taps` are those of the thread's columns.
  __device__ __forceinline__ explicit HeldRows(const ColumnTaps<kTaps>* taps) {
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
#pragma unroll
      for (int k = 0; k < kPlaneColumns; ++k) {
        offset_[t][k] = taps[k].offset[t];
        weight_[t][k] = taps[k].weight[t];
      }
    }
  }

  __device__ __forceinline__ void StartPlane() { next_ = std::numeric_limits<int32_t>::min(); }

  // Holds rows [first, first + kTaps) of a plane.
  __device__ __forceinline__ void MoveTo(const PlaneGrid& grid, const T* plane, int32_t first) {
    const int32_t end = first + kTaps;
#pragma unroll 1
    for (int32_t row = end < next_ ? first : device::Max(first, next_); row < end; ++row) {
#pragma unroll
      for (int t = 0; t + 1 < kTaps; ++t) {
#pragma unroll
        for (int k = 0; k < kPlaneColumns; ++k) row_[t][k] = row_[t + 1][k];
      }
      Read(plane, ClampTo32(grid.row, row) * grid.in_columns);
    }
    next_ = end;
  }

  __device__ __forceinline__ Pack<T, kPlaneColumns> Sum(const float (&weight)[kTaps]) const {
    float sum[kPlaneColumns] = {};
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
      if (weight[t] == 0.0f) continue;  // what is not finite there does not count
#pragma unroll
      for (int k = 0; k < kPlaneColumns; ++k) sum[k] += weight[t] * row_[t][k];
    }
    Pack<T, kPlaneColumns> pack;
#pragma unroll
    for (int k = 0; k < kPlaneColumns; ++k) pack.value[k] = Store<T>(sum[k]);
    return pack;
  }

 private:
  __device__ __forceinline__ void Read(const T* plane, int32_t line) {
    float value[kTaps][kPlaneColumns];
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
#pragma unroll
      for (int k = 0; k < kPlaneColumns; ++k) value[t][k] = Load(plane[line + offset_[t][k]]);
    }
#pragma unroll
    for (int k = 0; k < kPlaneColumns; ++k) {
      float sum = 0.0f;
#pragma unroll
      for (int t = 0; t < kTaps; ++t) sum += weight_[t][k] * value[t][k];
      row_[kTaps - 1][k] = sum;
    }
  }

  int32_t offset_[kTaps][kPlaneColumns];
  float weight_[kTaps][kPlaneColumns];
  float row_[kTaps][kPlaneColumns] = {};
  int32_t next_ = 0;  // rows [next_ - kTaps, next_) are held
};

template <class T, int kTaps>
__global__ void __launch_bounds__(kResizeThreads)
    InterpolatePlanesKernel(const T* x, T* y, Interpolation how, __grid_constant__ const PlaneGrid grid) {
  __shared__ FixedTaps<kTaps> rows[kResizeThreads];
  __shared__ ColumnTaps<kTaps> columns[kResizeThreads * kPlaneColumns];
  const PlanePlace at = LocatePlane(grid);
  const int32_t block_column = at.column - static_cast<int32_t>(threadIdx.x) * kPlaneColumns;
  const int width = static_cast<int>(blockDim.x) * kPlaneColumns;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x); i < width; i += kResizeThreads) {
    columns[i] = {};
    if (block_column + i < grid.out_columns) FillColumn(how, grid, block_column + i, columns[i]);
  }
  FillRowTable(grid, at, [&](int i, int32_t row) { rows[i] = FixTaps<kTaps>(how, grid.row, row); });
  device::GridDependencyWait();
  if (at.column >= grid.out_columns) return;
  HeldRows<T, kTaps> held(columns + (at.column - block_column));
  const T* from = x + at.plane * grid.in_plane;
  T* to = y + at.plane * grid.out_plane;
#pragma unroll 1
  for (int64_t plane = at.plane; plane < at.plane_end; ++plane) {
    held.StartPlane();
#pragma unroll 1
    for (int32_t row = at.row; row < at.row_end; ++row) {
      const FixedTaps<kTaps>& taps = rows[row - at.block_row];
      held.MoveTo(grid, from, taps.first);
      StoreColumns(grid, to + static_cast<int64_t>(row) * grid.out_columns, at.column, held.Sum(taps.weight));
    }
    from += grid.in_plane;
    to += grid.out_plane;
  }
}

template <class T>
Status LaunchAsPlanes(const PlaneGrid& grid, const device::LaunchConfig& config, const Interpolation& how,
                      const void* x, void* y, device::Stream stream) {
  const auto kernel = how.filter == Filter::kLinear ? InterpolatePlanesKernel<T, 2> : InterpolatePlanesKernel<T, 4>;
  return device::Launch(kernel, config, stream, static_cast<const T*>(x), static_cast<T*>(y), how, grid);
}

}  // namespace

std::optional<Status> LaunchPlanes(const ResizeShape& shape, const Interpolation& how, DataType type, const void* x,
                                   void* y, device::Stream stream) {
  const std::optional<ResizePlanes> planes = AsPlanes(shape);
  if (!planes.has_value() || shape.extrapolate || planes->row.shrink < 1.0f || planes->column.shrink < 1.0f) {
    return std::nullopt;
  }
  PlaneGrid grid;
  device::LaunchConfig config;
  if (!MakePlaneGrid(*planes, SizeOf(type), y, &grid, &config)) return std::nullopt;
  return VisitType<kFloatTypesNoDouble, std::optional<Status>>(
      type, std::nullopt, [&]<class T>() { return LaunchAsPlanes<T>(grid, config, how, x, y, stream); });
}

}  // namespace cudaep::kernels::resize
