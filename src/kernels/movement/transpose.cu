#include "kernels/index_limit.h"
#include "kernels/movement/copy_kernel.cuh"
#include "kernels/movement/transpose.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;

// TransposeTiles for the device: with tile counts, and divisors for the batch.
struct TileGrid {
  int64_t a_size, b_size;
  int64_t in_stride, out_stride;
  int log_tile_a, log_tile_b;
  FastDivider tiles_a, tiles_b;
  int batch_rank;
  FastDivider batch_size[kMaxStridedRank];
  int64_t batch_in_stride[kMaxStridedRank];
  int64_t batch_out_stride[kMaxStridedRank];
};

// The corner of a block's tile, and where the tile's corner lies on both sides.
struct Tile {
  int64_t a, b;  // elements left from the corner to the matrix's edges
  int64_t in, out;
};

__device__ __forceinline__ Tile LocateTile(const TileGrid& grid, int tile_a, int tile_b) {
  uint32_t ta, tb;
  uint32_t rest = grid.tiles_b.DivideWithRemainder(grid.tiles_a.DivideWithRemainder(blockIdx.x, &ta), &tb);
  const int64_t a = static_cast<int64_t>(ta) * tile_a, b = static_cast<int64_t>(tb) * tile_b;
  Tile tile{grid.a_size - a, grid.b_size - b, a + b * grid.in_stride, b + a * grid.out_stride};
  for (int d = 0; d < grid.batch_rank; ++d) {
    uint32_t coordinate = rest;
    if (d + 1 < grid.batch_rank) rest = grid.batch_size[d].DivideWithRemainder(rest, &coordinate);
    tile.in += static_cast<int64_t>(coordinate) * grid.batch_in_stride[d];
    tile.out += static_cast<int64_t>(coordinate) * grid.batch_out_stride[d];
  }
  return tile;
}

// Tiles read and written in packs of 16 bytes. Each 8 packs of a row in shared memory are permuted by the number of the
// row's output pack: the 8 lanes that gather neighbouring output packs then read different banks, as do the 8 lanes
// that store 128 bytes of a row.
template <class Unit>
__global__ void __launch_bounds__(kThreads) TransposePacksKernel(const Unit* in, Unit* out, TileGrid grid) {
  constexpr int kPack = PackElems(sizeof(Unit));
  constexpr int kTileA = PackTileA(sizeof(Unit)), kTileB = PackTileB(sizeof(Unit));
  constexpr int kRowPacks = kTileA / kPack, kColumnPacks = kTileB / kPack;
  __shared__ __align__(16) Unit shared[kTileA * kTileB];
  TriggerDependentsOfSmallGrid();
  const Tile tile = LocateTile(grid, kTileA, kTileB);
  device::GridDependencyWait();

#pragma unroll
  for (int p = 0; p < kTileB * kRowPacks / kThreads; ++p) {
    const int index = p * kThreads + static_cast<int>(threadIdx.x);
    const int b = index / kRowPacks, pack = index % kRowPacks;
    if (b < tile.b && pack * kPack < tile.a) {
      StorePack(&shared[b * kTileA + (pack ^ (b / kPack % 8)) * kPack],
                LoadPack<kPack>(in + tile.in + b * grid.in_stride + pack * kPack));
    }
  }
  __syncthreads();
  // A warp writes 128 bytes of each of 4 output rows.
#pragma unroll
  for (int p = 0; p < kTileA * kColumnPacks / kThreads; ++p) {
    const int warp = (p * kThreads + static_cast<int>(threadIdx.x)) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int a = warp % (kTileA / 4) * 4 + lane / 8, pack = warp / (kTileA / 4) * 8 + lane % 8;
    if (a >= tile.a || pack * kPack >= tile.b) continue;
    Pack<Unit, kPack> column;
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      column.value[k] = shared[(pack * kPack + k) * kTileA + ((a / kPack) ^ (pack % 8)) * kPack + a % kPack];
    }
    StorePack(out + tile.out + a * grid.out_stride + pack * kPack, column);
  }
}

// Tiles of any shape, one element at a time; an odd pitch keeps the columns of a tile in different banks. A thread
// stays in one column of the input's tile and in one row of the output's, and issues all its loads before it waits for
// one.
template <class Unit>
__global__ void __launch_bounds__(kThreads) TransposeElementsKernel(const Unit* in, Unit* out, TileGrid grid) {
  constexpr int kSteps = ElementTileElems(sizeof(Unit)) / kThreads;
  Unit* const shared = device::DynamicShared<Unit>();
  const int tile_a = 1 << grid.log_tile_a, tile_b = 1 << grid.log_tile_b, pitch = tile_a + 1;
  const int thread = static_cast<int>(threadIdx.x);
  TriggerDependentsOfSmallGrid();
  const Tile tile = LocateTile(grid, tile_a, tile_b);
  device::GridDependencyWait();
  // Edges in 32 bits and addresses that only grow: index arithmetic is what limits narrow elements.
  const int a_end = static_cast<int>(device::Min<int64_t>(tile.a, tile_a));
  const int b_end = static_cast<int>(device::Min<int64_t>(tile.b, tile_b));
  {
    const int a = thread & (tile_a - 1), first = thread >> grid.log_tile_a, step = kThreads >> grid.log_tile_a;
    const int left = a < a_end ? b_end - first : 0;
    const Unit* from = in + tile.in + first * grid.in_stride + a;
    const int64_t from_step = step * grid.in_stride;
    Unit value[kSteps];
#pragma unroll
    for (int k = 0; k < kSteps; ++k, from += from_step) {
      if (k * step < left) value[k] = *from;
    }
    Unit* place = shared + first * pitch + a;
#pragma unroll
    for (int k = 0; k < kSteps; ++k, place += step * pitch) {
      if (k * step < left) *place = value[k];
    }
  }
  __syncthreads();
  const int b = thread & (tile_b - 1), first = thread >> grid.log_tile_b, step = kThreads >> grid.log_tile_b;
  const int left = b < b_end ? a_end - first : 0;
  const Unit* place = shared + b * pitch + first;
  Unit* to = out + tile.out + first * grid.out_stride + b;
  const int64_t to_step = step * grid.out_stride;
#pragma unroll
  for (int k = 0; k < kSteps; ++k, to += to_step, place += step) {
    if (k * step < left) *to = *place;
  }
}

// False when the tiles cannot be numbered with 31 bits.
bool MakeGrid(const TransposeTiles& tiles, int64_t tile_a, int64_t tile_b, TileGrid& grid, unsigned* blocks) {
  const int64_t tiles_a = CeilDiv(tiles.a_size, tile_a), tiles_b = CeilDiv(tiles.b_size, tile_b);
  int64_t count = 0;
  if (!CheckedMultiply(tiles_a, tiles_b, &count)) return false;
  for (int d = 0; d < tiles.batch_rank; ++d) {
    if (!CheckedMultiply(count, tiles.batch_size[d], &count)) return false;
  }
  if (!FitsIndex(count)) return false;
  *blocks = static_cast<unsigned>(count);
  grid = {.a_size = tiles.a_size,
          .b_size = tiles.b_size,
          .in_stride = tiles.in_stride,
          .out_stride = tiles.out_stride,
          .log_tile_a = tiles.log_tile_a,
          .log_tile_b = tiles.log_tile_b,
          .tiles_a = FastDivider(static_cast<uint32_t>(tiles_a)),
          .tiles_b = FastDivider(static_cast<uint32_t>(tiles_b)),
          .batch_rank = tiles.batch_rank,
          .batch_size = {},
          .batch_in_stride = {},
          .batch_out_stride = {}};
  for (int d = 0; d < tiles.batch_rank; ++d) {
    grid.batch_size[d] = FastDivider(static_cast<uint32_t>(tiles.batch_size[d]));
    grid.batch_in_stride[d] = tiles.batch_in_stride[d];
    grid.batch_out_stride[d] = tiles.batch_out_stride[d];
  }
  return true;
}

template <class Unit>
Status LaunchTiles(const TransposePlan& plan, const void* in, void* out, device::Stream stream) {
  const TransposeTiles& tiles = plan.tiles;
  const bool packs = tiles.packs && IsAligned(in, kPackBytes) && IsAligned(out, kPackBytes);
  const int tile_a = packs ? PackTileA(sizeof(Unit)) : 1 << tiles.log_tile_a;
  const int tile_b = packs ? PackTileB(sizeof(Unit)) : 1 << tiles.log_tile_b;
  TileGrid grid;
  device::LaunchConfig config;
  if (!IsAligned(in, sizeof(Unit)) || !IsAligned(out, sizeof(Unit)) ||
      !MakeGrid(tiles, tile_a, tile_b, grid, &config.grid.x)) {
    return LaunchStridedCopy(plan.rows, in, out, stream);
  }
  config.block.x = kThreads;
  config.programmatic = true;
  auto kernel = TransposeElementsKernel<Unit>;
  if constexpr (sizeof(Unit) <= kMaxPackedElemBytes) {
    if (packs) kernel = TransposePacksKernel<Unit>;
  }
  if (!packs) config.shared_bytes = static_cast<size_t>((tile_a + 1) * tile_b) * sizeof(Unit);
  return device::Launch(kernel, config, stream, static_cast<const Unit*>(in), static_cast<Unit*>(out), grid);
}

}  // namespace

Status LaunchTranspose(const TransposePlan& plan, const void* in, void* out, device::Stream stream) {
  if (plan.bytes == 0) return Status::Ok();
  if (plan.kind == TransposeKind::kCopy) {
    return device::MemcpyAsync(out, in, static_cast<size_t>(plan.bytes), stream);
  }
  if (plan.kind == TransposeKind::kRows) return LaunchStridedCopy(plan.rows, in, out, stream);
  if (plan.kind != TransposeKind::kTiles) return LaunchInterleave(plan, in, out, stream);
  switch (plan.tiles.elem_bytes) {
    case 1:
      return LaunchTiles<uint8_t>(plan, in, out, stream);
    case 2:
      return LaunchTiles<uint16_t>(plan, in, out, stream);
    case 4:
      return LaunchTiles<uint32_t>(plan, in, out, stream);
    case 8:
      return LaunchTiles<uint64_t>(plan, in, out, stream);
    case 16:
      return LaunchTiles<Unit16>(plan, in, out, stream);
    default:
      return Internal("transpose of elements of ", plan.tiles.elem_bytes, " bytes");
  }
}

}  // namespace cudaep::kernels
