// What the first warpgroup of a block of a product by warpgroups (warpgroup_product.cuh) brings to the others.
#pragma once

#include "device/warpgroup.h"
#include "kernels/gemm/warpgroup_block.cuh"

namespace cudaep::kernels::warpgroup {

template <class Finish, class Tile>
__device__ __forceinline__ void FetchBoxes(const Tiles& p, const device::TensorMap& a, const device::TensorMap& b,
                                           const Finish& finish, Shared<Finish, Tile>& shared, unsigned char* boxes) {
  const Share<Tile> share(p);
  const int stages = shared.Stages(p);
  const auto bring_b = [&](int column, int step, int stage) {
    device::CopyBarrier* const full = &shared.full[stage];
    full->ArriveExpecting(Tile::kStageBytes);
    constexpr int kSideBySide = Finish::template kSideBySide<Tile::kColumns>;
    unsigned char* const to = boxes + stage * Tile::kStageBytes + Tile::kBytesOfA;
    const int from = step * device::kBoxColumns;
    if constexpr (Finish::kGated) {
      constexpr int kHalf = Tile::kColumns / 2;
      device::CopyBox<kSideBySide>(to, b, from, finish.gated.first + column / 2, full);
      device::CopyBox<kSideBySide>(to + kHalf * device::kBoxRowBytes, b, from, finish.gated.second + column / 2, full);
    } else {
      device::CopyBox<kSideBySide>(to, b, from, column, full);
    }
  };
  int ahead = 0;  // boxes of B that have been asked for ahead of the loop
  if (p.constants.b) {
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
template <class Finish>
__device__ __forceinline__ int ColumnsPlace(int change) {
  return change % kColumnsAhead<Finish>;
}
template <class Finish>
__device__ __forceinline__ unsigned ColumnsParity(int change) {
  return static_cast<unsigned>(change / kColumnsAhead<Finish>) & 1;
}

template <class Finish, class Tile>
__device__ __forceinline__ void BringColumns(const Tiles& p, const Finish& finish, Shared<Finish, Tile>& shared) {
  static_assert(!Tile::kTurns);  // groups would have columns of their own
  constexpr bool kEachTile = Finish::kBrings == Bringing::kEachTile;
  const Share<Tile> share(p);
  if (!kEachTile && !p.constants.columns) device::GridDependencyWait();
  int brought = -1, change = -1;
  for (int tile = share.first_tile; tile < p.tiles; tile += share.next_tile) {
    int row, column;
    p.template Place<Finish, Tile>(tile, row, column);
    if (!kEachTile && brought == column) continue;
    brought = column, ++change;
    const int place = ColumnsPlace<Finish>(change);
    shared.columns.empty[place].Wait(ColumnsParity<Finish>(change) ^ 1);
    finish.Bring(shared.of_columns[place], column);
    if constexpr (kEachTile) {
      // Twice at first: a kernel of a few us waits for its instructions as long as for memory, unless it has them
      // before earlier work is done.
#pragma unroll 1
      for (bool rehearses = change == 0;; rehearses = false) {
        finish.BringRows(shared.of_columns[place], row, rehearses);
        if (!rehearses) break;
        device::GridDependencyWait();
      }
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) shared.columns.full[place].Arrive();
  }
}

}  // namespace cudaep::kernels::warpgroup
