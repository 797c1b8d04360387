// What a block of a product by warpgroups (warpgroup_product.cuh) works on, and what its warps share.
#pragma once

#include <type_traits>

#include "device/warpgroup.h"
#include "kernels/fast_divide.h"
#include "kernels/gemm/split_sums.cuh"
#include "kernels/gemm/warpgroup_tiles.h"

namespace cudaep::kernels::warpgroup {

inline constexpr int kWarps = device::kWarpgroupThreads / 32;  // of a group

// What a block works on at a time. kGroups: that multiply; in turns each has every second tile of the block, else 64
// rows of each. kMostSplits: blocks that share a tile, at most.
template <int columns, bool turns, int groups, int most_splits = 1>
struct Tile {
  static constexpr int kColumns = columns, kGroups = groups, kMostSplits = most_splits;
  static constexpr bool kTurns = turns;
  static constexpr int kRows = device::kWarpgroupRows * groups;
  static constexpr int kParts = turns ? groups : 1;  // of 64 rows, that a group has of a tile
  static constexpr int kBytesOfA = kRows * device::kBoxRowBytes;
  static constexpr int kStageBytes = kBytesOfA + columns * device::kBoxRowBytes;  // boxes of A, then of B
  static constexpr int kResidualBytes = kRows * columns * 2;                      // boxes of 64 columns
  static constexpr unsigned kThreads = (1 + groups) * device::kWarpgroupThreads;
  // Blocks that share a multiprocessor. Where those are two, or a single group multiplies, registers stay as the
  // compiler has them.
  static constexpr int kTogether = WarpgroupBlocksTogether(columns);
  // What the block was launched with is divided anew: so many for each thread, as the compiler has it with kThreads.
  static constexpr int kLaunchRegisters = groups == 2 ? 168 : 96;
  static constexpr bool kDividesRegisters = kTogether == 1 && groups > 1;
  static constexpr int FetchRegisters(bool brings) { return !brings ? 24 : groups == 2 ? 40 : 32; }
  static constexpr int MultiplyRegisters(bool brings) { return groups == 4 ? 112 : brings ? 232 : 240; }
  static constexpr bool Divides(bool brings) {
    return FetchRegisters(brings) + groups * MultiplyRegisters(brings) <= (1 + groups) * kLaunchRegisters;
  }
  static_assert(!kDividesRegisters || (Divides(false) && Divides(true)));
  static_assert(groups == 2 || (groups == 4 && columns == 128 && !turns) || (groups == 1 && columns <= 128 && !turns));

  using Split = std::conditional_t<(most_splits > 1), SplitSums<columns, groups, most_splits>, NoSplitSums>;
};

template <WarpgroupTiles kTiles>
struct TileOf;
template <>
struct TileOf<WarpgroupTiles::kFinest> : std::type_identity<Tile<64, false, 1, kMostWarpgroupSplits>> {};
template <>
struct TileOf<WarpgroupTiles::kFlat> : std::type_identity<Tile<128, false, 1>> {};
template <>
struct TileOf<WarpgroupTiles::kFine> : std::type_identity<Tile<64, false, 2>> {};
template <>
struct TileOf<WarpgroupTiles::kSmall> : std::type_identity<Tile<128, false, 2>> {};
template <>
struct TileOf<WarpgroupTiles::kBroad> : std::type_identity<Tile<160, false, 2>> {};
template <>
struct TileOf<WarpgroupTiles::kWide> : std::type_identity<Tile<192, false, 2>> {};
template <>
struct TileOf<WarpgroupTiles::kTall> : std::type_identity<Tile<128, false, 4>> {};
template <>
struct TileOf<WarpgroupTiles::kTurns> : std::type_identity<Tile<192, true, 2>> {};

// What may be read before earlier work of the stream is done: B, and what columns have.
struct Constants {
  bool b = false, columns = false;
};

// Where the halves of B's columns begin of which a gated product's tile has as many: what its first half of columns is
// of, and the second.
struct GatedColumns {
  int32_t first = 0, second = 0;
};

// The product, and how blocks go round its tiles.
struct Tiles {
  FastDivider line;             // tiles of a column, or of a row (kAlongRows)
  int32_t tiles, steps;         // boxes along the inner dimension
  int32_t splits, split_steps;  // blocks that share a tile, and the steps of each of them but the last
  int32_t stages;               // of the ring, two at least; with kHoldsAll
  Constants constants;
  uint8_t unused[6] = {};  // without padding, where the simulated device might find an old pointer

  template <class Tile>
  __device__ __forceinline__ bool AreSplit() const {
    return Tile::kMostSplits > 1 && splits > 1;
  }
  // The first row and column of a tile.
  template <class Finish, class Tile>
  __device__ __forceinline__ void Place(int tile, int& row, int& column) const {
    uint32_t in_line;
    const uint32_t other = line.DivideWithRemainder(static_cast<uint32_t>(tile), &in_line);
    row = static_cast<int>(Finish::kAlongRows ? other : in_line) * Tile::kRows;
    column = static_cast<int>(Finish::kAlongRows ? in_line : other) * Tile::kColumns;
  }
};

// What a block has of them.
template <class Tile>
struct Share {
  int splits = 1, rank = 0;  // the blocks that share a tile, and the number of this one among them
  int first_tile, next_tile, first_step = 0, steps;

  __device__ __forceinline__ explicit Share(const Tiles& p)
      : first_tile(static_cast<int>(blockIdx.x)), next_tile(static_cast<int>(gridDim.x)), steps(p.steps) {
    if (!p.AreSplit<Tile>()) return;
    splits = p.splits, rank = static_cast<int>(device::ClusterRank());
    static_assert(kMostWarpgroupSplits == 4);
    const int log_splits = splits / 2;  // of 2 and 4
    first_tile >>= log_splits, next_tile >>= log_splits;
    first_step = rank * p.split_steps, steps = device::Min(p.split_steps, p.steps - first_step);
  }
};

// Whether the ring holds all that is to come, or as much of it as shared memory can: a single group's tile is small,
// and what it waits for is memory. Fewer boxes leave room to other blocks. Codes take half of the room, and gain
// nothing.
template <class Finish, class Tile>
constexpr bool kHoldsAll = Tile::kGroups == 1 && sizeof(typename Finish::Element) == 2;

// Who brings what a tile's columns have.
enum class Bringing : uint8_t {
  kItself,    // each warp that finishes, which holds up its products
  kColumns,   // a warp beside the one that fetches, a tile ahead, for all others
  kEachTile,  // three warps beside it, for each tile
};
constexpr unsigned BringingWarps(Bringing who) {
  return who == Bringing::kItself ? 0 : who == Bringing::kColumns ? 1 : kWarps - 1;
}
// Of those that are brought ahead, how many are there at once. Where tiles have their own, most blocks have one tile.
template <class Finish>
constexpr int kColumnsAhead = Finish::kBrings == Bringing::kEachTile ? 1 : 2;
template <class Finish, class Tile>
constexpr int kColumnCopies = Finish::kBrings == Bringing::kItself ? Tile::kGroups* kWarps : kColumnsAhead<Finish>;

// As many as shared memory holds, up to enough.
template <class Finish, class Tile>
constexpr int kStagesOf = [] {
  constexpr size_t kOthers = device::kBoxSlack + sizeof(typename Tile::Split) + 256 +
                             kColumnCopies<Finish, Tile> * sizeof(typename Finish::template OfColumns<Tile::kColumns>);
  constexpr size_t kEnough = kHoldsAll<Finish, Tile> ? 12 : 6;
  constexpr size_t kBytes = kWarpgroupSharedBytes / (kHoldsAll<Finish, Tile> ? 1 : Tile::kTogether);
  constexpr size_t kMost = (kBytes - kOthers) / Tile::kStageBytes;
  return static_cast<int>(kMost < kEnough ? kMost : kEnough);
}();

template <int kAhead>
struct ColumnBarriers {
  device::CopyBarrier full[kAhead], empty[kAhead];

  __device__ __forceinline__ void Init(unsigned bringers, unsigned finishers) {
    for (device::CopyBarrier& barrier : full) barrier.Init(bringers);
    for (device::CopyBarrier& barrier : empty) barrier.Init(finishers);
  }
};
// Of kernels that do not bring columns ahead.
struct NoColumnBarriers {
  __device__ __forceinline__ void Init(unsigned /*bringers*/, unsigned /*finishers*/) {}
};

// What the warps of a block share beside the boxes.
template <class Finish, class Tile>
struct Shared {
  static constexpr int kStages = kStagesOf<Finish, Tile>;
  device::CopyBarrier full[kStages], empty[kStages], turn[Tile::kGroups];
  [[no_unique_address]] std::conditional_t<Finish::kBrings == Bringing::kItself, NoColumnBarriers,
                                           ColumnBarriers<kColumnsAhead<Finish>>>
      columns;
  typename Tile::Split split;
  typename Finish::template OfColumns<Tile::kColumns> of_columns[kColumnCopies<Finish, Tile>];

  static __device__ __forceinline__ int Stages(const Tiles& p) { return kHoldsAll<Finish, Tile> ? p.stages : kStages; }
};

}  // namespace cudaep::kernels::warpgroup
