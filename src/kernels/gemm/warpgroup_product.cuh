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
//   kGated                      whether columns of C are made of two of B's: one of each half of a tile's, whose boxes
//                               lie where `gated` says (GatedColumns). Tiles are not split then
//   kBrings                     who brings what columns have (Bringing)
//   OfColumns<N>                what lies in shared memory for a tile's columns, with kEachTile for its rows too
//   OfThread<N>                 what a thread asks for before its products
//   Bring(OfColumns&, column)   by who brings; the tile's first column. With kEachTile it reads nothing that earlier
//                               work writes, as it begins before that is done, nor does BringRows(OfColumns&, row,
//                               rehearses) as it rehearses; else that reads the rest
//   BringThread(OfThread&, row, column)
//                               the thread's first row, and the tile's first column
//   operator()(OfColumns, OfThread, sum, first, row, column)
//                               by a warp: a segment, 32 columns of 16 rows, of which the thread has 16 sums as
//                               warpgroup.h says, columns in a box's order, upper rows `row`; the segment's first
//                               column is `first` in the tile, `column` in C. With kResidual a last argument: the
//                               segment's box, from the first of the group's rows on. With kGated two `sum`, of either
//                               half, and columns are those of one
//
// The block's first warpgroup brings boxes, and some of its warps what columns have, up to kColumnsAhead of those that
// follow each other (not in turns); the others multiply and finish: all of that after GridDependencyWait, but for boxes
// of a constant B and for columns, where they are constant or with kEachTile. Sums are added in one order: results
// never differ from run to run.
#pragma once

#include <algorithm>
#include <type_traits>

#include "core/checked_math.h"
#include "device/warpgroup.h"
#include "kernels/common/trigger.cuh"
#include "kernels/gemm/warpgroup_fetch.cuh"

namespace cudaep::kernels::warpgroup {

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
  constexpr bool kAhead = Finish::kBrings != Bringing::kItself;
  auto* const columns = &shared.of_columns[kAhead ? 0 : group * kWarps + warp];
  int stage = 0, last_stage = 0, turn = 0;
  int brought = -1, change = -1;                       // of columns
  unsigned parity = 0, own_turn = group == 0 ? 1 : 0;  // the first group's turn is over from the start
  if constexpr (Tile::kGroups == 1 && !kAhead) {
    if (p.constants.columns) {
      int row;
      p.template Place<Finish, Tile>(share.first_tile, row, brought);
      finish.Bring(*columns, brought);
      __syncwarp();
    }
  }
  device::GridDependencyWait();
  // Beside larger tiles the next kernel's blocks would gather where room is, two by two (measured: slower).
  if constexpr (Tile::kGroups == 1) TriggerDependentsOfSmallGrid();
  for (int tile = share.first_tile; tile < p.tiles; tile += share.next_tile, turn ^= 1) {
    if (kTurns && turn != group) {
      for (stage += share.steps; stage >= stages; stage -= stages) parity ^= 1;
      continue;
    }
    int row, column;
    p.template Place<Finish, Tile>(tile, row, column);
    row += first_row;
    const auto row_of = [&](int part) { return row + part * device::kWarpgroupRows + warp * 16 + lane / 4; };
    // Where each brings for itself a constant: where another variable than `brought` says whether columns are new, the
    // compiler no longer sees that all lanes take the same way (fp16 BERT at a batch of 32: 1.5%).
    [[maybe_unused]] bool awaits_columns = false;
    if (Finish::kBrings == Bringing::kEachTile || brought != column) {
      __syncwarp();
      if constexpr (kAhead) {
        if (change >= 0 && lane == 0) shared.columns.empty[ColumnsPlace<Finish>(change)].Arrive();
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
    if constexpr (kAhead) {
      if (awaits_columns) shared.columns.full[ColumnsPlace<Finish>(change)].Wait(ColumnsParity<Finish>(change));
    }
    const auto& of_columns = columns[kAhead ? ColumnsPlace<Finish>(change) : 0];
    if (share.splits > 1) shared.split.Exchange(sum[0], share.rank, share.splits, group, warp);
    const auto finish_segment = [&](int part, const device::WarpgroupSum<T>* of_segment, int first,
                                    [[maybe_unused]] const device::WarpgroupSum<T>* other) {
      if constexpr (Finish::kGated) {
        finish(of_columns, of_thread[part], of_segment, other, first, row_of(part), column / 2 + first);
      } else if constexpr (Finish::kResidual) {
        finish(of_columns, of_thread[part], of_segment, first, row_of(part), column + first,
               residual + first / device::kBoxColumns * (Tile::kRows * device::kBoxRowBytes));
      } else {
        finish(of_columns, of_thread[part], of_segment, first, row_of(part), column + first);
      }
    };
    constexpr int kFinished = Finish::kGated ? kColumns / 2 : kColumns;
    if constexpr (Tile::kGroups == 1) {
      // Once in code, which a kernel of a few us has to fetch, whatever it takes to choose the sums.
#pragma unroll 1
      for (int first = 0; first < kFinished; first += kSegmentColumns) {
        const bool finishes =
            share.splits == 1 || Tile::Split::Finishes(share.rank, share.splits, first / kSegmentColumns, warp);
        if (!finishes) continue;
        const auto choose = [&](device::WarpgroupSum<T>(&chosen)[kSegmentColumns / 2], int from) {
#pragma unroll
          for (int i = 0; i < kSegmentColumns / 2; ++i) {
            chosen[i] = sum[0][from / 2 + i];
#pragma unroll
            for (int other = kSegmentColumns; other < kFinished; other += kSegmentColumns) {
              if (first == other) chosen[i] = sum[0][(from + other) / 2 + i];
            }
          }
        };
        device::WarpgroupSum<T> chosen[kSegmentColumns / 2];
        choose(chosen, 0);
        if constexpr (Finish::kGated) {
          device::WarpgroupSum<T> other[kSegmentColumns / 2];
          choose(other, kFinished);
          finish_segment(0, chosen, first, other);
        } else {
          finish_segment(0, chosen, first, nullptr);
        }
      }
    } else {
      static_assert(Tile::kMostSplits == 1);
#pragma unroll
      for (int first = 0; first < kFinished; first += kSegmentColumns) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const device::WarpgroupSum<T>* other = nullptr;
          if constexpr (Finish::kGated) other = &sum[part][(first + kFinished) / 2];
          finish_segment(part, &sum[part][first / 2], first, other);
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
    shared.columns.Init(BringingWarps(Finish::kBrings), kFinishers);
    if (p.AreSplit<Tile>()) shared.split.Init(p.splits);
    device::FenceCopyBarriers();
  }
  if (p.AreSplit<Tile>()) {
    device::ClusterMeeting();
  } else {
    __syncthreads();
  }
  if (threadIdx.x < device::kWarpgroupThreads) {
    constexpr unsigned kBringers = BringingWarps(Finish::kBrings);
    if constexpr (Tile::kDividesRegisters) device::KeepRegisters<Tile::FetchRegisters(kBringers > 0)>();
    if (threadIdx.x == 0) FetchBoxes<Finish, Tile>(p, a, b, finish, shared, boxes);
    if constexpr (kBringers > 0) {
      const unsigned warp = threadIdx.x / 32;
      if (warp > 0 && warp <= kBringers) BringColumns<Finish, Tile>(p, finish, shared);
    }
  } else {
    if constexpr (Tile::kDividesRegisters)
      device::TakeRegisters<Tile::MultiplyRegisters(Finish::kBrings != Bringing::kItself)>();
    MultiplyTiles<Finish, Tile>(p, finish, shared, boxes);
  }
}

template <class Finish, class Tile>
Status LaunchTiles(const WarpgroupPlan& plan, const void* a, const void* b, Constants constants, int64_t m, int64_t n,
                   int64_t k, const Finish& finish, device::Stream stream) {
  const int64_t words = k * static_cast<int64_t>(sizeof(typename Finish::Element)) / 2;  // boxes are of 16 bits
  device::TensorMap a_map, b_map;
  CUDAEP_RETURN_IF_ERROR(device::MakeTensorMap(a, m, words, Tile::kRows, &a_map));
  CUDAEP_RETURN_IF_ERROR(device::MakeTensorMap(b, n, words, Finish::kGated ? Tile::kColumns / 2 : Tile::kColumns,
                                               &b_map, Finish::template kSideBySide<Tile::kColumns>));
  static_assert(!Finish::kGated || (Tile::kColumns % (2 * kSegmentColumns) == 0 && !Finish::kResidual));
  if (Finish::kGated && plan.splits != 1) return InvalidArgument("tiles of gated products are not split");
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
  constexpr bool kHasParts = kHoldsAll<Finish, Tile> && Tile::kTogether == 2 && kMostStages > 3;
  if (plan.ring_parts != 1 && !(kHasParts && plan.ring_parts == 2)) {
    return InvalidArgument("a product by warpgroups whose rings are ", plan.ring_parts, " in a multiprocessor");
  }
  const auto stages =
      kHoldsAll<Finish, Tile> ? std::clamp<int64_t>(boxes, 2, kMostStages / plan.ring_parts) : kMostStages;
  const Tiles arguments{.line = FastDivider(static_cast<uint32_t>(Finish::kAlongRows ? tiles / row_tiles : row_tiles)),
                        .tiles = static_cast<int32_t>(tiles),
                        .steps = static_cast<int32_t>(steps),
                        .splits = plan.splits,
                        .split_steps = static_cast<int32_t>(split_steps),
                        .stages = static_cast<int32_t>(stages),
                        .constants = constants};
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

// [m, k] by [n, k], contiguous, aligned to 16 bytes, rows of whole 16 bytes.
template <class Finish>
Status Launch(const WarpgroupPlan& plan, const void* a, const void* b, Constants constants, int64_t m, int64_t n,
              int64_t k, const Finish& finish, device::Stream stream) {
  const auto launch = [&]<WarpgroupTiles kTiles>() -> Status {
    using Of = typename TileOf<kTiles>::type;
    static_assert(Of::kRows == WarpgroupRows(kTiles) && Of::kColumns == WarpgroupColumns(kTiles));
    if constexpr (Finish::Takes(kTiles)) {
      return LaunchTiles<Finish, Of>(plan, a, b, constants, m, n, k, finish, stream);
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
