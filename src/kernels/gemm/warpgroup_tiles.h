// How products by warpgroups (warpgroup_product.cuh) cut C into tiles.
#pragma once

#include <cstdint>

#include "device/device_info.h"

namespace cudaep::kernels {

inline constexpr int kWarpgroupSegment = 32;                        // columns that a warp finishes at once
inline constexpr size_t kWarpgroupSharedBytes = size_t{208} << 10;  // of a block, at most

// What a block's warpgroups work on at a time, rows by columns of C: two of them, one (kFinest, kFlat) or four (kTall).
// Each kind of product has some of them.
enum class WarpgroupTiles : uint8_t {
  kFinest,  // 64 x 64, two blocks together where few steps leave room
  kFlat,    // 64 x 128
  kFine,    // 128 x 64, half of the rows each, two blocks together
  kSmall,   // 128 x 128, half of the rows each
  kBroad,   // 128 x 160, half of the rows each
  kWide,    // 128 x 192, half of the rows each
  kTall,    // 256 x 128, a quarter of the rows each
  kTurns,   // 128 x 192 each in turns (ping-pong): one multiplies while the other finishes
};

struct WarpgroupPlan {
  WarpgroupTiles tiles = WarpgroupTiles::kSmall;
  unsigned blocks = 0;  // which go round the tiles: at most one for each tile and split
  // Blocks of a cluster that share a tile (kFinest, of some), of which each has a part of the inner dimension: 1, 2 or
  // 4.
  int splits = 1;
  int ring_parts = 1;  // of a multiprocessor's memory, of which a block's ring has one (kFinest): 1 or 2
};
inline constexpr int kMostWarpgroupSplits = 4;

constexpr int64_t WarpgroupRows(WarpgroupTiles tiles) {
  if (tiles == WarpgroupTiles::kFinest || tiles == WarpgroupTiles::kFlat) return 64;
  return tiles == WarpgroupTiles::kTall ? 256 : 128;
}
constexpr int64_t WarpgroupColumns(WarpgroupTiles tiles) {
  if (tiles == WarpgroupTiles::kFinest || tiles == WarpgroupTiles::kFine) return 64;
  if (tiles == WarpgroupTiles::kBroad) return 160;
  return tiles == WarpgroupTiles::kWide || tiles == WarpgroupTiles::kTurns ? 192 : 128;
}
// Whether a single warpgroup multiplies, so that it is the launch and memory that are waited for.
constexpr bool IsFlat(WarpgroupTiles tiles) { return WarpgroupRows(tiles) == 64; }
// Blocks that share a multiprocessor.
constexpr int WarpgroupBlocksTogether(int64_t columns) { return columns == 64 ? 2 : 1; }
int64_t WarpgroupTileCount(int64_t m, int64_t n, WarpgroupTiles tiles);

bool HasWarpgroups(const device::DeviceInfo& device);
// Whether the device has such kernels, and their indices hold a product [m, k] by [n, k].
bool TakesWarpgroups(int64_t m, int64_t n, int64_t k, const device::DeviceInfo& device);

WarpgroupPlan PlanWarpgroups(int64_t m, int64_t n, WarpgroupTiles tiles, const device::DeviceInfo& device);
// The finest tiles of a product whose rows of A have `row_bytes`, each cut among as many blocks of a cluster as make it
// faster, up to `most_splits`.
WarpgroupPlan PlanFinest(int64_t m, int64_t n, int64_t row_bytes, const device::DeviceInfo& device, int ring_parts = 1,
                         int most_splits = kMostWarpgroupSplits);
// For tiles of the same rows that follow each other: as many blocks as make whole rows, so that each keeps its columns,
// where that leaves few multiprocessors idle.
WarpgroupPlan WithWholeRows(WarpgroupPlan plan, int64_t n);
// With the tiles that are expected to take the least time.
WarpgroupPlan PlanWarpgroups(int64_t m, int64_t n, const device::DeviceInfo& device);

}  // namespace cudaep::kernels
