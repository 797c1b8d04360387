// Many tokens without tensor cores: fp32, rows that are no whole packs, tensors at odd addresses.
#include "kernels/moe/moe_grid.h"
#include "kernels/moe/moe_weights.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kColumns = 64;  // of a block
constexpr int kRows = 64;     // of a step of a block
constexpr int kDepth = 16;    // inner elements staged at a time
constexpr int kThreads = 256;
constexpr int kPerThread = 4;
constexpr int kLanes = kColumns / kPerThread;
constexpr int kLoads = kColumns * kDepth / kThreads;
constexpr int kPitch = kColumns + 4;  // keeps transposed stores off one bank

template <class T>
__global__ void __launch_bounds__(kThreads) MoeTileKernel(__grid_constant__ const MoeArguments p, const MoeGrid grid) {
  device::GridDependencyWait();
  __shared__ float tile_a[kDepth * kPitch];
  __shared__ float tile_b[kDepth * kPitch];
  const MoeGridPlace place = MoePlaceOf(grid, blockIdx.x);
  const MoeTile tile = p.at.tiles[place.tile];
  const int thread = static_cast<int>(threadIdx.x), depth = thread % kDepth, line = thread / kDepth;
  const int lane_row = thread / kLanes, lane_column = thread % kLanes;
  const int64_t first_column = place.column * kColumns;

  for (int32_t begin = 0; begin < tile.rows; begin += kRows) {
    // Rows and columns of which this thread brings an element each step.
    const T* inputs[kLoads];
    MoeWeightRow rows[kLoads];
    const uint8_t* bytes[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int at = line + i * (kThreads / kDepth);
      const bool exists = begin + at < tile.rows;
      const int64_t entry_place = tile.first + begin + at;
      const int64_t row = exists ? MoeInputRow(p, entry_place, p.at.order[entry_place]) : 0;
      inputs[i] = exists ? static_cast<const T*>(p.at.a) + row * p.k : nullptr;
      rows[i] = MoeRowOf(p, tile.expert, device::Min(first_column + at, p.columns - 1));
      bytes[i] = MoeRowBytes(p, rows[i]);
    }
    float sum[kPerThread][kPerThread] = {};
    for (int64_t k = 0; k < p.k; k += kDepth) {
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int at = line + i * (kThreads / kDepth);
        const bool inside = k + depth < p.k;
        tile_a[depth * kPitch + at] = inside && inputs[i] != nullptr ? Load(inputs[i][k + depth]) : 0.0f;
        tile_b[depth * kPitch + at] = inside ? MoeWeight<T>(p, rows[i], bytes[i], k + depth) : 0.0f;
      }
      __syncthreads();
      for (int d = 0; d < kDepth; ++d) {
        float left[kPerThread], right[kPerThread];
#pragma unroll
        for (int i = 0; i < kPerThread; ++i) {
          left[i] = tile_a[d * kPitch + lane_row + i * kLanes];
          right[i] = tile_b[d * kPitch + lane_column * kPerThread + i];
        }
#pragma unroll
        for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
          for (int j = 0; j < kPerThread; ++j) sum[i][j] += left[i] * right[j];
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int at = lane_row + i * kLanes;
      if (begin + at >= tile.rows) continue;
      const int64_t entry_place = tile.first + begin + at;
      T* const row = static_cast<T*>(p.at.y) + (p.second ? p.at.order[entry_place] : entry_place) * p.n;
#pragma unroll
      for (int j = 0; j < kPerThread; j += 2) {
        MoeFinish<T>(p, tile.expert, first_column + lane_column * kPerThread + j, sum[i][j], sum[i][j + 1], row);
      }
    }
  }
}

}  // namespace

Status LaunchMoePlainProduct(const MoeArguments& p, DataType type, int64_t tiles, device::Stream stream) {
  CUDAEP_ASSIGN_OR_RETURN(const MoeGrid grid, MoeGridOf(tiles, p.columns, kColumns));
  device::LaunchConfig config;
  config.grid.x = grid.blocks;
  config.block.x = kThreads;
  config.programmatic = true;
  return VisitType<kFloatTypesNoDouble>(type, NotSupported("experts of ", DataTypeName(type)), [&]<class T>() {
    return device::Launch(MoeTileKernel<T>, config, stream, p, grid);
  });
}

}  // namespace cudaep::kernels
