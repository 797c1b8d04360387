// The blocks of a mixture of experts' product: tiles of rows by tiles of columns.
#pragma once

#include <cstdint>

#include "core/checked_math.h"
#include "core/float16.h"
#include "core/status.h"
#include "kernels/moe/moe_arguments.h"

namespace cudaep::kernels {

// Blocks that run together read few rows and few weights: they go through `kMoeTogether` tiles of rows for one tile of
// columns after the other.
inline constexpr int64_t kMoeTogether = 16;

struct MoeGrid {
  int64_t tiles, columns;
  unsigned blocks, padding = 0;
};
struct MoeGridPlace {
  int64_t tile, column;
};

inline Result<MoeGrid> MoeGridOf(int64_t tiles, int64_t columns, int64_t tile_columns) {
  const int64_t across = CeilDiv<int64_t>(columns, tile_columns);
  int64_t blocks = 0;
  if (!CheckedMultiply(tiles, across, &blocks) || !FitsInt32(blocks)) {
    return NotSupported(tiles, " tiles of tokens times ", across, " of weights, more than 2^31");
  }
  return MoeGrid{tiles, across, static_cast<unsigned>(blocks)};
}

CUDAEP_HOST_DEVICE MoeGridPlace MoePlaceOf(const MoeGrid& grid, int64_t block) {
  const int64_t first = block / (kMoeTogether * grid.columns) * kMoeTogether;
  const int64_t left = grid.tiles - first, together = left < kMoeTogether ? left : kMoeTogether;
  const int64_t rest = block - first * grid.columns;
  return {first + rest % together, rest / together};
}

// The product by the kernel that takes every type, width and address.
Status LaunchMoePlainProduct(const MoeArguments& arguments, DataType type, int64_t tiles, device::Stream stream);
// The same by tensor cores: 16-bit floats in packs; tile_rows is 64 or 128.
Status LaunchMoeTensorProduct(const MoeArguments& arguments, DataType type, int tile_rows, int64_t tiles,
                              device::Stream stream);

}  // namespace cudaep::kernels
