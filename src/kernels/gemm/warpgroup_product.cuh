// C = finish(A * B^T): a product by warpgroups whose warps finish sums while tensor cores work on, for devices of 9.0.
// Included by one file for each way to finish, which says in a type
//   Element                     of A and B
//   Takes(tiles)                which tiles there are
//   kSideBySide<N>              columns of a segment that a thread has side by side, from kSideBySide * (lane % 4) on:
//                               2, or 8 where n is whole segments. B's rows lie so in its boxes (device::BoxRow), which
//                               takes time where tiles are few
//   kAlongRows                  whether tiles of the same rows follow each other, so that A is read once where the L2
//                               cache holds only a part of it; else those of the same columns do
//   kResidual                   whether it adds a matrix of C's dimensions and 16 bits. That comes in boxes too, behind
//                               those of a tile's last step: `residual` is its map, with boxes of the tile's rows
//   kBringsAhead                whether a warp beside the one that fetches brings what columns have, a tile ahead, for
//                               all others; else each does for itself, which holds up its products
//   OfColumns<N>                what lies in shared memory for a tile's columns
//   OfThread<N>                 what a thread asks for before its products
//   Bring(OfColumns&, column)   by a warp; the tile's first column
//   BringThread(OfThread&, row, column)
//                               the thread's first row, and the tile's first column
//   operator()(OfColumns, OfThread, sum, first, row, column)
//                               by a warp: a segment, 32 columns of 16 rows, of which the thread has 16 sums as
//                               warpgroup.h says, columns in a box's order, upper rows `row`; the segment's first
//                               column is `first` in the tile, `column` in C. With kResidual a last argument: the
//                               segment's box, from the first of the group's rows on
//
// The block's first warpgroup brings boxes, the others multiply and finish: all of that after GridDependencyWait, but
// that boxes of a constant B are asked for before. Sums are added in one order: results never differ from run to run.
#pragma once

#include <algorithm>
#include <type_traits>

#include "core/checked_math.h"
#include "device/warpgroup.h"
#include "kernels/common/trigger.cuh"
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

// The product, and how blocks go round its tiles.
struct Tiles {
  int32_t line, tiles, steps;   // tiles of a column, or of a row (kAlongRows); boxes along the inner dimension
  int32_t splits, split_steps;  // blocks that share a tile, and the steps of each of them but the last
  int32_t stages;               // of the ring, two at least; with kHoldsAll
  bool constant_b;              // its boxes may be read before earlier work is done
  uint8_t unused[7] = {};       // without padding, where the simulated device might find an old pointer

  template <class Tile>
  __device__ __forceinline__ bool AreSplit() const {
    return Tile::kMostSplits > 1 && splits > 1;
  }
  // The first row and column of a tile.
  template <class Finish, class Tile>
  __device__ __forceinline__ void Place(int tile, int& row, int& column) const {
    const int in_line = tile % line, other = tile / line;
    row = (Finish::kAlongRows ? other : in_line) * Tile::kRows;
    column = (Finish::kAlongRows ? in_line : other) * Tile::kColumns;
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
    first_tile /= splits, next_tile /= splits;
    first_step = rank * p.split_steps, steps = device::Min(p.split_steps, p.steps - first_step);
  }
};

// Whether the ring holds all that is to come, or as much of it as shared memory can: a single group's tile is small,
// and what it waits for is memory. Fewer boxes leave room to other blocks. Codes take half of the room, and gain
// nothing.
template <class Finish, class Tile>
constexpr bool kHoldsAll = Tile::kGroups == 1 && sizeof(typename Finish::Element) == 2;

inline constexpr int kColumnsAhead = 2;  // that are there at once
template <class Finish, class Tile>
constexpr int kColumnCopies = Finish::kBringsAhead ? kColumnsAhead : Tile::kGroups* kWarps;

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

// What the warps of a block share beside the boxes.
template <class Finish, class Tile>
struct Shared {
  static constexpr int kStages = kStagesOf<Finish, Tile>;
  device::CopyBarrier full[kStages], empty[kStages], turn[Tile::kGroups];
  device::CopyBarrier columns_full[kColumnsAhead], columns_empty[kColumnsAhead];
  typename Tile::Split split;
  typename Finish::template OfColumns<Tile::kColumns> of_columns[kColumnCopies<Finish, Tile>];

  static __device__ __forceinline__ int Stages(const Tiles& p) { return kHoldsAll<Finish, Tile> ? p.stages : kStages; }
};

template <class Finish, class Tile>
__device__ __forceinline__ void FetchBoxes(const Tiles& p, const device::TensorMap& a, const device::TensorMap& b,
                                           const Finish& finish, Shared<Finish, Tile>& shared, unsigned char* boxes) {
  const Share<Tile> share(p);
  const int stages = shared.Stages(p);
  const auto bring_b = [&](int column, int step, int stage) {
    device::CopyBarrier* const full = &shared.full[stage];
    full->ArriveExpecting(Tile::kStageBytes);
    device::CopyBox<Finish::template kSideBySide<Tile::kColumns>>(boxes + stage * Tile::kStageBytes + Tile::kBytesOfA,
                                                                  b, step * device::kBoxColumns, column, full);
  };
  int ahead = 0;  // boxes of B that have been asked for ahead of the loop
  if (p.constant_b) {
    int row, column;
    p.template Place<Finish, Tile>(share.first_tile, row, column);
    for (; ahead < share.steps && ahead < stages; ++ahead) bring_b(column, share.first_step + ahead, ahead);
  }
  device::GridDependencyWait();
  int stage = 0;
  unsigned parity = 1;  // of what is free from the start
  const auto next_stage = [&] {
    if (++stage == stages) stage = 0, parity ^= 1;
  };
  for (int tile = share.first_tile; tile < p.tiles; tile += share.next_tile) {
    int row, column;
    p.template Place<Finish, Tile>(tile, row, column);
    for (int step = share.first_step; step < share.first_step + share.steps; ++step) {
      shared.empty[stage].Wait(parity);
      if (ahead > 0) {
        --ahead;
      } else {
        bring_b(column, step, stage);
      }
      device::CopyBox(boxes + stage * Tile::kStageBytes, a, step * device::kBoxColumns, row, &shared.full[stage]);
      next_stage();
    }
    if constexpr (Finish::kResidual) {
      static_assert(Tile::kResidualBytes <= Tile::kStageBytes && Tile::kColumns % device::kBoxColumns == 0);
      static_assert(!Tile::kTurns);
      device::CopyBarrier* const full = &shared.full[stage];
      shared.empty[stage].Wait(parity);
      full->ArriveExpecting(Tile::kResidualBytes);
      for (int first = 0; first < Tile::kColumns; first += device::kBoxColumns) {
        device::CopyBox(boxes + stage * Tile::kStageBytes + first * Tile::kRows * 2, finish.residual, column + first,
                        row, full);
      }
      next_stage();
    }
  }
}

// Of columns that follow others for the given time: where they lie, and the phase of the barriers there.
__device__ __forceinline__ int ColumnsPlace(int change) { return change % kColumnsAhead; }
__device__ __forceinline__ unsigned ColumnsParity(int change) {
  return static_cast<unsigned>(change / kColumnsAhead) & 1;
}

template <class Finish, class Tile>
__device__ __forceinline__ void BringColumns(const Tiles& p, const Finish& finish, Shared<Finish, Tile>& shared) {
  static_assert(!Tile::kTurns);  // groups would have columns of their own
  const Share<Tile> share(p);
  device::GridDependencyWait();
  int brought = -1, change = -1;
  for (int tile = share.first_tile; tile < p.tiles; tile += share.next_tile) {
    int row, column;
    p.template Place<Finish, Tile>(tile, row, column);
    if (brought == column) continue;
    brought = column, ++change;
    const int place = ColumnsPlace(change);
    shared.columns_empty[place].Wait(ColumnsParity(change) ^ 1);
    finish.Bring(shared.of_columns[place], column);
    __syncwarp();
    if (threadIdx.x % 32 == 0) shared.columns_full[place].Arrive();
  }
}

template <class Finish, class Tile>
__device__ __forceinline__ void MultiplyTiles(const Tiles& p, const Finish& finish, Shared<Finish, Tile>& shared,
                                              const unsigned char* boxes) {
  using T = typename Finish::Element;
  constexpr int kParts = Tile::kParts, kColumns = Tile::kColumns;
  constexpr bool kTurns = Tile::kTurns;
  // The same for all lanes, which the compiler does not see of a thread's number.
  const int group = __shfl_sync(device::kFullWarp, static_cast<int>(threadIdx.x) / device::kWarpgroupThreads - 1, 0);
  const int warp = static_cast<int>(threadIdx.x) / 32 % kWarps, lane = static_cast<int>(threadIdx.x) % 32;
  const int first_row = kTurns ? 0 : group * device::kWarpgroupRows;
  const Share<Tile> share(p);
  const int stages = shared.Stages(p);
  const device::CopyBarriers full(shared.full), empty(shared.empty);
  const auto first_a = device::BoxPart::Of(boxes, first_row), first_b = device::BoxPart::Of(boxes + Tile::kBytesOfA);
  auto* const columns = &shared.of_columns[Finish::kBringsAhead ? 0 : group * kWarps + warp];
  int stage = 0, last_stage = 0, turn = 0;
  int brought = -1, change = -1;                       // of columns
  unsigned parity = 0, own_turn = group == 0 ? 1 : 0;  // the first group's turn is over from the start
  for (int tile = share.first_tile; tile < p.tiles; tile += share.next_tile, turn ^= 1) {
    if (kTurns && turn != group) {
      for (stage += share.steps; stage >= stages; stage -= stages) parity ^= 1;
      continue;
    }
    int row, column;
    p.template Place<Finish, Tile>(tile, row, column);
    row += first_row;
    const auto row_of = [&](int part) { return row + part * device::kWarpgroupRows + warp * 16 + lane / 4; };
    // Where another variable of this loop says whether columns are new, the compiler no longer sees that all lanes take
    // the same way (fp16 BERT at a batch of 32: 1.5%).
    [[maybe_unused]] bool awaits_columns = false;
    if (brought != column) {
      __syncwarp();
      if constexpr (Finish::kBringsAhead) {
        if (change >= 0 && lane == 0) shared.columns_empty[ColumnsPlace(change)].Arrive();
        ++change, awaits_columns = true;
      } else {
        finish.Bring(*columns, column);
        __syncwarp();
      }
      brought = column;
    }
    typename Finish::template OfThread<kColumns> of_thread[kParts];
#pragma unroll
    for (int part = 0; part < kParts; ++part) finish.BringThread(of_thread[part], row_of(part), column);

    // A barrier tells only whether its last phase is over: who is ahead of the other group would take an old one for
    // it.
    if (kTurns) shared.turn[group].Wait(own_turn);
    own_turn ^= 1;
    device::WarpgroupSum<T> sum[kParts][kColumns / 2];
    if constexpr (Tile::kMostSplits > 1 && std::is_same_v<device::WarpgroupSum<T>, float>) {
      // Where sums of other blocks are added, the compiler takes the last tile's for this one's, and would have each
      // product wait for the one before.
#pragma unroll
      for (auto& one : sum[0]) one = 0;
    }
    for (int step = 0; step < share.steps; ++step) {
      full.Wait(stage, parity);
      const auto a = first_a.Behind(stage * Tile::kStageBytes), b = first_b.Behind(stage * Tile::kStageBytes);
      device::WarpgroupBegin();
#pragma unroll
      for (int depth = 0; depth < device::kBoxRowBytes / device::kWarpgroupDepthBytes; ++depth) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          constexpr int kPartBytes = device::kWarpgroupRows * device::kBoxRowBytes;
          device::WarpgroupMma<T, kColumns>(sum[part], a.Behind(part * kPartBytes).At(depth), b.At(depth),
                                            (step | depth) != 0);
        }
      }
      device::WarpgroupCommit();
      device::WarpgroupWait<1>();
      if (step > 0 && lane == 0) empty.Arrive(last_stage);  // what the products before these have read
      last_stage = stage;
      if (++stage == stages) stage = 0, parity ^= 1;
    }
    if (kTurns && lane == 0) shared.turn[1 - group].Arrive();
    device::WarpgroupWait<0>();
    if (lane == 0) empty.Arrive(last_stage);
#pragma unroll
    for (int part = 0; part < kParts; ++part) device::WarpgroupSettle(sum[part]);
    const unsigned char* residual = nullptr;
    if constexpr (Finish::kResidual) {
      full.Wait(stage, parity);
      residual = boxes + stage * Tile::kStageBytes + first_row * device::kBoxRowBytes;
    }
    if (awaits_columns) shared.columns_full[ColumnsPlace(change)].Wait(ColumnsParity(change));
    const auto& of_columns = columns[Finish::kBringsAhead ? ColumnsPlace(change) : 0];
    if (share.splits > 1) shared.split.Exchange(sum[0], share.rank, share.splits, group, warp);
#pragma unroll
    for (int first = 0; first < kColumns; first += kSegmentColumns) {
      const bool finishes =
          share.splits == 1 || Tile::Split::Finishes(share.rank, share.splits, first / kSegmentColumns, warp);
      if (!finishes) continue;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        if constexpr (Finish::kResidual) {
          finish(of_columns, of_thread[part], &sum[part][first / 2], first, row_of(part), column + first,
                 residual + first / device::kBoxColumns * (Tile::kRows * device::kBoxRowBytes));
        } else {
          finish(of_columns, of_thread[part], &sum[part][first / 2], first, row_of(part), column + first);
        }
      }
    }
    if constexpr (Finish::kResidual) {
      __syncwarp();
      if (lane == 0) empty.Arrive(stage);
      if (++stage == stages) stage = 0, parity ^= 1;
    }
  }
}

template <class Finish, class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kTogether)
    WarpgroupProductKernel(const __grid_constant__ device::TensorMap a, const __grid_constant__ device::TensorMap b,
                           const __grid_constant__ Tiles p, const __grid_constant__ Finish finish) {
  __shared__ Shared<Finish, Tile> shared;
  unsigned char* const boxes = device::AlignBoxes(device::DynamicShared<unsigned char>());
  if (threadIdx.x == 0) {
    constexpr int kFinishers = (Tile::kTurns ? 1 : Tile::kGroups) * kWarps;  // of a tile
    for (int i = 0; i < shared.Stages(p); ++i) {
      shared.full[i].Init(1);
      shared.empty[i].Init(kFinishers);
    }
    for (device::CopyBarrier& turn : shared.turn) turn.Init(kWarps);
    for (device::CopyBarrier& full : shared.columns_full) full.Init(1);
    for (device::CopyBarrier& empty : shared.columns_empty) empty.Init(kFinishers);
    if (p.AreSplit<Tile>()) shared.split.Init(p.splits);
    device::FenceCopyBarriers();
  }
  if (p.AreSplit<Tile>()) {
    device::ClusterMeeting();
  } else {
    __syncthreads();
  }
  if (threadIdx.x < device::kWarpgroupThreads) {
    if constexpr (Tile::kDividesRegisters) device::KeepRegisters<Tile::FetchRegisters(Finish::kBringsAhead)>();
    if (threadIdx.x == 0) FetchBoxes<Finish, Tile>(p, a, b, finish, shared, boxes);
    if constexpr (Finish::kBringsAhead) {
      if (threadIdx.x / 32 == 1) BringColumns<Finish, Tile>(p, finish, shared);
    }
  } else {
    if constexpr (Tile::kDividesRegisters) device::TakeRegisters<Tile::MultiplyRegisters(Finish::kBringsAhead)>();
    device::GridDependencyWait();
    // Beside larger tiles the next kernel's blocks would gather where room is, two by two (measured: slower).
    if constexpr (Tile::kGroups == 1) TriggerDependentsOfSmallGrid();
    MultiplyTiles<Finish, Tile>(p, finish, shared, boxes);
  }
}

template <class Finish, class Tile>
Status LaunchTiles(const WarpgroupPlan& plan, const void* a, const void* b, bool constant_b, int64_t m, int64_t n,
                   int64_t k, const Finish& finish, device::Stream stream) {
  const int64_t words = k * static_cast<int64_t>(sizeof(typename Finish::Element)) / 2;  // boxes are of 16 bits
  device::TensorMap a_map, b_map;
  CUDAEP_RETURN_IF_ERROR(device::MakeTensorMap(a, m, words, Tile::kRows, &a_map));
  CUDAEP_RETURN_IF_ERROR(
      device::MakeTensorMap(b, n, words, Tile::kColumns, &b_map, Finish::template kSideBySide<Tile::kColumns>));
  const auto row_tiles = CeilDiv<int64_t>(m, Tile::kRows), tiles = row_tiles * CeilDiv<int64_t>(n, Tile::kColumns);
  const auto steps = CeilDiv<int64_t>(words, device::kBoxColumns);
  const auto splits = int64_t{plan.splits}, split_steps = CeilDiv(steps, std::max<int64_t>(splits, 1));
  // Each block has a tile, a cluster no other, and each of its blocks some steps.
  const bool fits = splits >= 1 && Tile::kMostSplits % splits == 0 && plan.blocks >= 1 &&
                    plan.blocks <= tiles * splits &&
                    (splits == 1 || (plan.blocks == tiles * splits && (splits - 1) * split_steps < steps));
  if (!fits) {
    return InvalidArgument("a product by warpgroups with ", tiles, " tiles of ", steps, " steps among ", plan.blocks,
                           " blocks, ", splits, " for each tile");
  }
  constexpr int kMostStages = kStagesOf<Finish, Tile>;
  const int64_t boxes = split_steps + Finish::kResidual;
  const auto stages = kHoldsAll<Finish, Tile> ? std::clamp<int64_t>(boxes, 2, kMostStages) : kMostStages;
  const Tiles arguments{.line = static_cast<int32_t>(Finish::kAlongRows ? tiles / row_tiles : row_tiles),
                        .tiles = static_cast<int32_t>(tiles),
                        .steps = static_cast<int32_t>(steps),
                        .splits = plan.splits,
                        .split_steps = static_cast<int32_t>(split_steps),
                        .stages = static_cast<int32_t>(stages),
                        .constant_b = constant_b};
  device::LaunchConfig config;
  constexpr size_t kMostBoxes = size_t{kMostStages} * Tile::kStageBytes + device::kBoxSlack;
  static_assert(kMostStages > 1 && kMostBoxes + sizeof(Shared<Finish, Tile>) <= kWarpgroupSharedBytes);
  config.grid.x = plan.blocks;
  config.cluster.x = static_cast<unsigned>(plan.splits);
  config.block.x = Tile::kThreads;
  config.shared_bytes = static_cast<size_t>(stages) * Tile::kStageBytes + device::kBoxSlack;
  config.programmatic = true;
  return device::Launch(WarpgroupProductKernel<Finish, Tile>, config, stream, a_map, b_map, arguments, finish);
}

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

// [m, k] by [n, k], contiguous, aligned to 16 bytes, rows of whole 16 bytes. `constant_b`: B may be read before earlier
// work of the stream is done.
template <class Finish>
Status Launch(const WarpgroupPlan& plan, const void* a, const void* b, bool constant_b, int64_t m, int64_t n, int64_t k,
              const Finish& finish, device::Stream stream) {
  const auto launch = [&]<WarpgroupTiles kTiles>() -> Status {
    using Of = typename TileOf<kTiles>::type;
    static_assert(Of::kRows == WarpgroupRows(kTiles) && Of::kColumns == WarpgroupColumns(kTiles));
    if constexpr (Finish::Takes(kTiles)) {
      return LaunchTiles<Finish, Of>(plan, a, b, constant_b, m, n, k, finish, stream);
    } else {
      return InvalidArgument("a product by warpgroups, [", m, ',', k, "] by [", n, ',', k,
                             "], that ends so has no tiles of ", WarpgroupRows(kTiles), " x ",
                             WarpgroupColumns(kTiles));
    }
  };
  switch (plan.tiles) {
    case WarpgroupTiles::kFinest:
      return launch.template operator()<WarpgroupTiles::kFinest>();
    case WarpgroupTiles::kFlat:
      return launch.template operator()<WarpgroupTiles::kFlat>();
    case WarpgroupTiles::kFine:
      return launch.template operator()<WarpgroupTiles::kFine>();
    case WarpgroupTiles::kSmall:
      return launch.template operator()<WarpgroupTiles::kSmall>();
    case WarpgroupTiles::kBroad:
      return launch.template operator()<WarpgroupTiles::kBroad>();
    case WarpgroupTiles::kWide:
      return launch.template operator()<WarpgroupTiles::kWide>();
    case WarpgroupTiles::kTall:
      return launch.template operator()<WarpgroupTiles::kTall>();
    case WarpgroupTiles::kTurns:
      return launch.template operator()<WarpgroupTiles::kTurns>();
  }
  return InvalidArgument("no tiles of a product by warpgroups");
}

}  // namespace cudaep::kernels::warpgroup
