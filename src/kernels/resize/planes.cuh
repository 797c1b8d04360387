// How threads share the planes of a resize.
//
// A thread has kPlaneColumns neighbouring outputs of each of its rows. Where they come from is worked out once and
// serves all of the thread's rows and planes; what rows come from is a table that the block makes. The rows of a thread
// are neighbours, so that input it holds serves the next one as well.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/index_limit.h"
#include "kernels/pack.h"
#include "kernels/resize/planes.h"
#include "kernels/resize/resize_walk.cuh"

namespace cudaep::kernels {

inline constexpr int kPlaneColumns = 4;
inline constexpr int kMaxThreadRows = 16;

struct PlaneGrid {
  ResizeDim row, column;
  FastDivider inner, column_blocks, row_blocks;
  int64_t in_plane, out_plane;      // elements
  int32_t in_columns, out_columns;  // elements of a row
  int32_t thread_rows, block_rows;  // block_rows is at most kResizeThreads
  int64_t planes;
  int32_t block_planes;
  bool packs;
};

// Where a thread works: outputs [column, column + kPlaneColumns) of rows [row, row_end) of planes [plane, plane_end).
struct PlanePlace {
  int32_t column, row, row_end;
  int32_t block_row;  // first row of the block
  int64_t plane, plane_end;
};

__device__ __forceinline__ PlanePlace LocatePlane(const PlaneGrid& grid) {
  uint32_t column_block, row_block;
  const uint32_t group = grid.row_blocks.DivideWithRemainder(
      grid.column_blocks.DivideWithRemainder(blockIdx.x, &column_block), &row_block);
  PlanePlace at;
  at.column = static_cast<int32_t>(column_block * blockDim.x + threadIdx.x) * kPlaneColumns;
  at.block_row = static_cast<int32_t>(row_block) * grid.block_rows;
  at.row = at.block_row + static_cast<int32_t>(threadIdx.y) * grid.thread_rows;
  at.row_end = device::Min(at.row + grid.thread_rows, static_cast<int32_t>(grid.row.out));
  at.plane = static_cast<int64_t>(group) * grid.block_planes;
  at.plane_end = device::Min(at.plane + grid.block_planes, grid.planes);
  return at;
}

__device__ __forceinline__ int32_t ClampTo32(const ResizeDim& dim, int32_t index) {
  return device::Min(device::Max(index, 0), static_cast<int32_t>(dim.in) - 1);
}

// Calls fill(i, row) for the entries of a table of the block's rows, one a thread.
template <class Fill>
__device__ __forceinline__ void FillRowTable(const PlaneGrid& grid, const PlanePlace& at, Fill&& fill) {
  const int i = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  if (i < grid.block_rows && at.block_row + i < grid.row.out) fill(i, at.block_row + i);
  __syncthreads();
}

template <class T>
__device__ __forceinline__ void StoreColumns(const PlaneGrid& grid, T* y, int32_t column,
                                             const Pack<T, kPlaneColumns>& value) {
  if (grid.packs) {
    StorePack<kPlaneColumns>(y + column, value);
    return;
  }
#pragma unroll
  for (int k = 0; k < kPlaneColumns; ++k) {
    if (column + k < grid.out_columns) y[column + k] = value.value[k];
  }
}

// False where 32-bit indices do not do, or there is nothing to compute.
inline bool MakePlaneGrid(const ResizePlanes& planes, size_t elem_bytes, const void* y, PlaneGrid* grid,
                          device::LaunchConfig* config) {
  int64_t in_columns = 0, out_columns = 0;
  if (!CheckedMultiply(planes.column.in, planes.inner, &in_columns) ||
      !CheckedMultiply(planes.column.out, planes.inner, &out_columns)) {
    return false;
  }
  // Blocks round rows and columns up.
  constexpr int64_t kRounding = kResizeThreads * kPlaneColumns;
  int64_t in_plane = 0, out_plane = 0;
  if (!CheckedMultiply(planes.row.in, in_columns, &in_plane) ||
      !CheckedMultiply(planes.row.out, out_columns, &out_plane) ||
      !FitsIndex(std::max({in_plane, out_columns + kRounding, planes.row.out + kRounding}))) {
    return false;
  }
  if (out_columns == 0 || planes.row.out == 0 || planes.planes == 0) return false;
  const int64_t threads = CeilDiv<int64_t>(out_columns, kPlaneColumns);  // of a row
  int64_t width = kResizeThreads;
  for (int64_t narrower = width / 2; narrower >= 8; narrower /= 2) {
    if (CeilDiv(threads, narrower) * narrower < CeilDiv(threads, width) * width) width = narrower;
  }
  const int64_t height = kResizeThreads / width;
  // First enough threads for the device, then more work for each.
  constexpr int64_t kThreadsWanted = 1 << 18, kMostWork = 64;
  const int64_t work =
      std::clamp<int64_t>(threads * planes.row.out / kThreadsWanted * planes.planes +
                              threads * planes.row.out % kThreadsWanted * planes.planes / kThreadsWanted,
                          1, kMostWork);
  const int64_t thread_rows =
      std::min({work, int64_t{kMaxThreadRows}, CeilDiv(planes.row.out, height), kResizeThreads / height});
  const int64_t block_rows = thread_rows * height, block_planes = std::min(work / thread_rows, planes.planes);
  const int64_t column_blocks = CeilDiv(threads, width), row_blocks = CeilDiv(planes.row.out, block_rows);
  int64_t blocks = 0;
  if (!CheckedMultiply(column_blocks * row_blocks, CeilDiv(planes.planes, block_planes), &blocks) ||
      !FitsIndex(blocks)) {
    return false;
  }
  *grid = {.row = planes.row,
           .column = planes.column,
           .inner = FastDivider(static_cast<uint32_t>(planes.inner)),
           .column_blocks = FastDivider(static_cast<uint32_t>(column_blocks)),
           .row_blocks = FastDivider(static_cast<uint32_t>(row_blocks)),
           .in_plane = in_plane,
           .out_plane = out_plane,
           .in_columns = static_cast<int32_t>(in_columns),
           .out_columns = static_cast<int32_t>(out_columns),
           .thread_rows = static_cast<int32_t>(thread_rows),
           .block_rows = static_cast<int32_t>(block_rows),
           .planes = planes.planes,
           .block_planes = static_cast<int32_t>(block_planes),
           .packs = out_columns % kPlaneColumns == 0 &&
                    IsAligned(y, std::min<size_t>(kPackBytes, kPlaneColumns * elem_bytes))};
  config->grid.x = static_cast<unsigned>(blocks);
  config->block = {static_cast<unsigned>(width), static_cast<unsigned>(height)};
  config->programmatic = true;
  return true;
}

}  // namespace cudaep::kernels
