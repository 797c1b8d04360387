// C = finish(A * B^T): a product by warpgroups whose warps finish sums while tensor cores work on, for devices of 9.0.
// Included by one file for each way to finish, which says in a type
//   Element                     of A and B
//   OfBlock, OfColumns<N>       what lies in shared memory: once a block, and once for each warp and its tile's columns
//   BringBlock(OfBlock&)        by all threads of the block
//   Bring(OfColumns&, column)   by a warp; the tile's first column
//   operator()(OfBlock, OfColumns, sum, first, row, column)
//                               by a warp: 32 columns of 16 rows, of which the thread has 16 sums as warpgroup.h says,
//                               upper rows `row`; `first` is the segment's first column in the tile
//
// The block's first warpgroup brings boxes, the two others multiply and finish. Sums are added in one order: results
// never differ from run to run.
#pragma once

#include "core/checked_math.h"
#include "device/warpgroup.h"
#include "kernels/gemm/warpgroup_tiles.h"

namespace cudaep::kernels::warpgroup {

inline constexpr int kRows = kWarpgroupTileRows;
inline constexpr int kGroups = 2, kWarps = device::kWarpgroupThreads / 32;       // that multiply, and warps of each
inline constexpr unsigned kThreads = (1 + kGroups) * device::kWarpgroupThreads;  // the first group's bring boxes
// What the block was launched with is divided anew: 168 for each thread, as the compiler has it with kThreads.
inline constexpr int kFetchRegisters = 24, kMultiplyRegisters = 240;  // of a thread
static_assert(kFetchRegisters + kGroups * kMultiplyRegisters == (1 + kGroups) * 168);
inline constexpr size_t kBoxSlack = device::kBoxAlignment - 16;  // shared memory is aligned to 16

// The product, and how blocks go round its tiles.
struct Tiles {
  int32_t row_tiles, tiles, steps;  // steps: boxes along the inner dimension
};

// A stage's boxes: of A, then of B.
template <int kColumns>
constexpr int kStageBytes = (kRows + kColumns) * device::kBoxRowBytes;
// Blocks that share a multiprocessor. Where those are two, registers stay as the compiler has them.
template <int kColumns>
constexpr int kTogether = kColumns == 64 ? 2 : 1;

// As many as shared memory holds, if six do.
template <class Finish, int kColumns>
constexpr int kStagesOf = [] {
  constexpr size_t kOthers = kBoxSlack + sizeof(typename Finish::OfBlock) + 256 +
                             kGroups * kWarps * sizeof(typename Finish::template OfColumns<kColumns>);
  constexpr size_t kMost = (kWarpgroupSharedBytes / kTogether<kColumns> - kOthers) / kStageBytes<kColumns>;
  return static_cast<int>(kMost < 6 ? kMost : 6);
}();

// What the warps of a block share beside the boxes.
template <class Finish, int kColumns, int kStages>
struct Shared {
  device::CopyBarrier full[kStages], empty[kStages], turn[kGroups];
  typename Finish::OfBlock of_block;
  typename Finish::template OfColumns<kColumns> of_columns[kGroups * kWarps];
};

template <class Finish, int kColumns, int kStages>
__device__ __forceinline__ void FetchBoxes(const Tiles& p, const device::TensorMap& a, const device::TensorMap& b,
                                           Shared<Finish, kColumns, kStages>& shared, unsigned char* boxes) {
  int stage = 0;
  unsigned parity = 1;  // of what is free from the start
  for (int tile = static_cast<int>(blockIdx.x); tile < p.tiles; tile += static_cast<int>(gridDim.x)) {
    const int row = tile % p.row_tiles * kRows, column = tile / p.row_tiles * kColumns;
    for (int step = 0; step < p.steps; ++step) {
      device::CopyBarrier* const full = &shared.full[stage];
      unsigned char* const to = boxes + stage * kStageBytes<kColumns>;
      shared.empty[stage].Wait(parity);
      full->ArriveExpecting(kStageBytes<kColumns>);
      device::CopyBox(to, a, step * device::kBoxColumns, row, full);
      device::CopyBox(to + kRows * device::kBoxRowBytes, b, step * device::kBoxColumns, column, full);
      if (++stage == kStages) stage = 0, parity ^= 1;
    }
  }
}

// kTurns: each group has every second tile of the block, else half of the rows of each.
template <class Finish, int kColumns, int kStages, bool kTurns>
__device__ __forceinline__ void MultiplyTiles(const Tiles& p, const Finish& finish,
                                              Shared<Finish, kColumns, kStages>& shared, const unsigned char* boxes) {
  using T = typename Finish::Element;
  constexpr int kParts = kRows / device::kWarpgroupRows / (kTurns ? 1 : kGroups);
  const int group = static_cast<int>(threadIdx.x) / device::kWarpgroupThreads - 1;
  const int warp = static_cast<int>(threadIdx.x) / 32 % kWarps, lane = static_cast<int>(threadIdx.x) % 32;
  const int first_row = kTurns ? 0 : group * device::kWarpgroupRows;
  auto& of_columns = shared.of_columns[group * kWarps + warp];
  int stage = 0, turn = 0;
  unsigned parity = 0, own_turn = group == 0 ? 1 : 0;  // the first group's turn is over from the start
  for (int tile = static_cast<int>(blockIdx.x); tile < p.tiles; tile += static_cast<int>(gridDim.x), turn ^= 1) {
    if (kTurns && turn != group) {
      for (stage += p.steps; stage >= kStages; stage -= kStages) parity ^= 1;
      continue;
    }
    const int row = tile % p.row_tiles * kRows + first_row, column = tile / p.row_tiles * kColumns;
    __syncwarp();
    finish.Bring(of_columns, column);
    __syncwarp();

    // A barrier tells only whether its last phase is over: who is ahead of the other group would take an old one for
    // it.
    if (kTurns) shared.turn[group].Wait(own_turn);
    own_turn ^= 1;
    device::WarpgroupSum<T> sum[kParts][kColumns / 2];
    device::CopyBarrier* done = nullptr;  // with what the products before these read
    for (int step = 0; step < p.steps; ++step) {
      shared.full[stage].Wait(parity);
      const unsigned char* const box = boxes + stage * kStageBytes<kColumns>;
      const device::BoxPart b = device::BoxPart::Of(box + kRows * device::kBoxRowBytes);
      device::WarpgroupBegin();
#pragma unroll
      for (int depth = 0; depth < device::kBoxRowBytes / device::kWarpgroupDepthBytes; ++depth) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const auto a = device::BoxPart::Of(box, first_row + part * device::kWarpgroupRows);
          device::WarpgroupMma<T, kColumns>(sum[part], a.At(depth), b.At(depth), (step | depth) != 0);
        }
      }
      device::WarpgroupCommit();
      device::WarpgroupWait<1>();
      if (lane == 0 && done != nullptr) done->Arrive();
      done = &shared.empty[stage];
      if (++stage == kStages) stage = 0, parity ^= 1;
    }
    if (kTurns && lane == 0) shared.turn[1 - group].Arrive();
    device::WarpgroupWait<0>();
    if (lane == 0) done->Arrive();
#pragma unroll
    for (int first = 0; first < kColumns; first += 32) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        finish(shared.of_block, of_columns, &sum[part][first / 2], first,
               row + part * device::kWarpgroupRows + warp * 16 + lane / 4, column + first);
      }
    }
  }
}

template <class Finish, int kColumns, int kStages, bool kTurns>
__global__ void __launch_bounds__(kThreads, kTogether<kColumns>)
    WarpgroupProductKernel(const __grid_constant__ device::TensorMap a, const __grid_constant__ device::TensorMap b,
                           const __grid_constant__ Tiles p, const __grid_constant__ Finish finish) {
  __shared__ Shared<Finish, kColumns, kStages> shared;
  auto* const dynamic = device::DynamicShared<unsigned char>();
  const auto misplaced = reinterpret_cast<uintptr_t>(dynamic) % device::kBoxAlignment;
  unsigned char* const boxes = dynamic + (misplaced == 0 ? 0 : device::kBoxAlignment - misplaced);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      shared.full[i].Init(1);
      shared.empty[i].Init(kTurns ? kWarps : kGroups * kWarps);
    }
    for (device::CopyBarrier& turn : shared.turn) turn.Init(kWarps);
    device::FenceCopyBarriers();
  }
  device::GridDependencyWait();
  finish.BringBlock(shared.of_block);
  __syncthreads();
  if (threadIdx.x < device::kWarpgroupThreads) {
    if constexpr (kTogether<kColumns> == 1) device::KeepRegisters<kFetchRegisters>();
    if (threadIdx.x == 0) FetchBoxes<Finish, kColumns, kStages>(p, a, b, shared, boxes);
  } else {
    if constexpr (kTogether<kColumns> == 1) device::TakeRegisters<kMultiplyRegisters>();
    MultiplyTiles<Finish, kColumns, kStages, kTurns>(p, finish, shared, boxes);
  }
}

template <class Finish, int kColumns, bool kTurns>
Status LaunchTiles(const void* a, const void* b, int64_t m, int64_t n, int64_t k, unsigned blocks, const Finish& finish,
                   device::Stream stream) {
  constexpr int kStages = kStagesOf<Finish, kColumns>;
  const int64_t words = k * static_cast<int64_t>(sizeof(typename Finish::Element)) / 2;  // boxes are of 16 bits
  device::TensorMap a_map, b_map;
  CUDAEP_RETURN_IF_ERROR(device::MakeTensorMap(a, m, words, kRows, &a_map));
  CUDAEP_RETURN_IF_ERROR(device::MakeTensorMap(b, n, words, kColumns, &b_map));
  const auto row_tiles = CeilDiv<int64_t>(m, kRows), tiles = row_tiles * CeilDiv<int64_t>(n, kColumns);
  const Tiles arguments{.row_tiles = static_cast<int32_t>(row_tiles),
                        .tiles = static_cast<int32_t>(tiles),
                        .steps = static_cast<int32_t>(CeilDiv<int64_t>(words, device::kBoxColumns))};
  device::LaunchConfig config;
  static_assert(size_t{kStages} * kStageBytes<kColumns> + kBoxSlack + sizeof(Shared<Finish, kColumns, kStages>) <=
                kWarpgroupSharedBytes);
  config.grid.x = blocks;
  config.block.x = kThreads;
  config.shared_bytes = size_t{kStages} * kStageBytes<kColumns> + kBoxSlack;
  config.programmatic = true;
  return device::Launch(WarpgroupProductKernel<Finish, kColumns, kStages, kTurns>, config, stream, a_map, b_map,
                        arguments, finish);
}

// [m, k] by [n, k], contiguous, aligned to 16 bytes, rows of whole 16 bytes.
template <class Finish>
Status Launch(const WarpgroupPlan& plan, const void* a, const void* b, int64_t m, int64_t n, int64_t k,
              const Finish& finish, device::Stream stream) {
  switch (plan.tiles) {
    case WarpgroupTiles::kFine:
      if constexpr (sizeof(typename Finish::Element) == 1) {
        return LaunchTiles<Finish, 64, false>(a, b, m, n, k, plan.blocks, finish, stream);
      }
      break;
    case WarpgroupTiles::kSmall:
      return LaunchTiles<Finish, 128, false>(a, b, m, n, k, plan.blocks, finish, stream);
    case WarpgroupTiles::kWide:
      return LaunchTiles<Finish, 192, false>(a, b, m, n, k, plan.blocks, finish, stream);
    case WarpgroupTiles::kTurns:
      if constexpr (sizeof(typename Finish::Element) == 2) {
        return LaunchTiles<Finish, 192, true>(a, b, m, n, k, plan.blocks, finish, stream);
      }
      break;
  }
  return InvalidArgument("no tiles of a product by warpgroups");
}

}  // namespace cudaep::kernels::warpgroup
