// The kernel of a fused step; an instance for each part and type, and for how many weights a thread holds.
#pragma once

#include "kernels/common/raw_pack.cuh"
#include "kernels/rnn/fused_step.h"
#include "kernels/rnn/rnn_cells.cuh"

namespace cudaep::kernels {

inline constexpr int kFusedRows = 16;   // of weights, of a block: a tensor core's
inline constexpr int kFusedBatch = 32;  // rows of the batch at once
inline constexpr int kFusedRowTiles = kFusedBatch / kRnnRowTile;
inline constexpr int kFusedWarps = 8, kFewestFusedWarps = 4;
inline constexpr int kMostFusedGroups = 8;           // of 64 bytes of each of the weights' rows, that a thread holds
inline constexpr int kFusedPitch = kFusedBatch + 8;  // of sums: pairs that a half warp stores lie in different banks

// Units of a block's tile.
constexpr int FusedUnits(int products) { return kFusedRows / products; }

// In packs of 16 bytes: [directions, tiles, groups, 2, 32 lanes] weights and RnnRows as they are.
struct FusedArgs {
  const uint32_t* weights;
  const uint32_t* rows;
  int32_t groups, tiles, product_warps, zero = 0;  // no padding (RnnRows)
};

using FusedLauncher = Status (*)(const RnnShape&, const RnnPointers&, const FusedArgs&, int64_t step, device::Stream);

// Of weights that take `groups` in a thread: 2, 4 or 8. Each type in a file of its own.
template <class T>
FusedLauncher FindFusedStep(RnnPart part, int groups);
template <>
FusedLauncher FindFusedStep<float>(RnnPart part, int groups);
template <>
FusedLauncher FindFusedStep<Half>(RnnPart part, int groups);
template <>
FusedLauncher FindFusedStep<BFloat16>(RnnPart part, int groups);

using FusedPack = PackWords<kRnnPackBytes>;

__device__ __forceinline__ FusedPack LoadFusedPack(const uint32_t* from, int64_t pack) {
  return LoadRaw<4>(from + pack * 4);
}

// A warp's part of the inner dimension: sums[i] += weights * rows of the i-th eight rows of the batch, of which the
// first `row_tiles` exist. As many are on their way at once as registers are left for.
template <class T, int kGroups>
__device__ __forceinline__ void MultiplyFused(device::FragmentD<float> (&sums)[kFusedRowTiles],
                                              const FusedPack (&weights)[kGroups][2], const FusedArgs& fused,
                                              int64_t first_row_tile, int64_t row_tiles, int group) {
  constexpr int kAtOnce = std::max(8 / kGroups, 1);
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int first = 0; first < kFusedRowTiles; first += kAtOnce) {
    FusedPack rows[kAtOnce][kGroups];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t pack = ((first_row_tile + first + i) * fused.groups + group) * 32 + lane;
#pragma unroll
      for (int q = 0; q < kGroups; ++q) {
        const bool exists = first + i < row_tiles && group + q < fused.groups;
        rows[i][q] = exists ? LoadFusedPack(fused.rows, pack + q * 32) : FusedPack{};
      }
    }
#pragma unroll
    for (int q = 0; q < kGroups; ++q) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        device::FragmentA<T> a;
#pragma unroll
        for (int word = 0; word < 4; ++word) a.word[word] = weights[q][half].word[word];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          const device::FragmentB<T> b = {rows[i][q].word[2 * half], rows[i][q].word[2 * half + 1]};
          device::Mma(sums[first + i], a, b);
        }
      }
    }
  }
}

template <template <class> class Cell, class T, int kGroups>
__global__ void __launch_bounds__(32 * kFusedWarps, 2)
    FusedStepKernel(__grid_constant__ const RnnArgs<T> args, __grid_constant__ const FusedArgs fused) {
  constexpr int kProducts = Cell<T>::kProducts, kUnits = FusedUnits(kProducts), kCells = kFusedBatch * kUnits;
  __shared__ float partial[kFusedWarps][kFusedRows][kFusedPitch];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int64_t direction = blockIdx.z, batch = args.shape.batch;
  const int64_t chunks = CeilDiv<int64_t>(batch, kFusedBatch), row_tiles = args.rows.row_tiles;
  const int group = warp * kGroups;

  const auto place = [&](int64_t chunk, int cell, int64_t* row, int64_t* unit) {
    *row = chunk * kFusedBatch + cell / kUnits;
    *unit = static_cast<int64_t>(blockIdx.x) * kUnits + cell % kUnits;
    return *row < batch && *unit < args.shape.hidden;
  };

  // Behind the first step nothing of this depends on the kernel before, and all kernels in front of that one are done:
  // it waited for them before it let this one start.
  if (args.step == 0) device::GridDependencyWait();
  FusedPack weights[kGroups][2];
  const int64_t weight = ((direction * fused.tiles + blockIdx.x) * fused.groups + group) * 64 + lane;
#pragma unroll
  for (int q = 0; q < kGroups; ++q) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      weights[q][half] =
          group + q < fused.groups ? LoadFusedPack(fused.weights, weight + (q * 2 + half) * 32) : FusedPack{};
    }
  }
  int64_t row, unit;
  typename Cell<T>::Inputs inputs = {};
  if (thread < kCells && place(blockIdx.y, thread, &row, &unit))
    inputs = Cell<T>::Load(RnnElement<T>{args, direction, row, unit});
  if (args.step != 0) device::GridDependencyWait();
  device::TriggerDependents();

  for (int64_t chunk = blockIdx.y; chunk < chunks; chunk += gridDim.y) {
    RnnState<T> before = {};
    if (thread < kCells && place(chunk, thread, &row, &unit))
      before = RnnState<T>::Load(RnnElement<T>{args, direction, row, unit});
    if (warp < fused.product_warps) {
      device::FragmentD<float> sums[kFusedRowTiles] = {};
      const int64_t first = chunk * kFusedRowTiles;
      MultiplyFused<T, kGroups>(sums, weights, fused, direction * row_tiles + first, row_tiles - first, group);
#pragma unroll
      for (int i = 0; i < kFusedRowTiles; ++i) {
#pragma unroll
        for (int value = 0; value < 4; ++value) {
          partial[warp][device::MmaRow(lane, value)][i * kRnnRowTile + device::MmaColumn(lane, value)] =
              sums[i].value[value];
        }
      }
    }
    __syncthreads();
    for (int cell = thread; cell < kCells; cell += static_cast<int>(blockDim.x)) {
      if (!place(chunk, cell, &row, &unit)) continue;
      const RnnElement<T> e{args, direction, row, unit};
      if (cell != thread || chunk != blockIdx.y) inputs = Cell<T>::Load(e);
      if (cell != thread) before = RnnState<T>::Load(e);
      float product[kProducts] = {};
#pragma unroll
      for (int i = 0; i < kProducts; ++i) {
#pragma unroll
        for (int w = 0; w < kFusedWarps; ++w) {
          if (w < fused.product_warps) product[i] += partial[w][i * kUnits + cell % kUnits][cell / kUnits];
        }
      }
      Cell<T>::Step(e, inputs, before, product);
    }
    __syncthreads();
  }
}

template <template <class> class Cell, class T, int kGroups>
Status LaunchFusedAs(const RnnShape& shape, const RnnPointers& at, const FusedArgs& fused, int64_t step,
                     device::Stream stream) {
  constexpr int64_t kSmallGrid = 128;  // blocks that leave no multiprocessor with two
  const int64_t chunks = CeilDiv<int64_t>(shape.batch, kFusedBatch);
  const bool spread = fused.tiles * shape.directions * chunks <= kSmallGrid;
  device::LaunchConfig config;
  config.grid = {static_cast<unsigned>(fused.tiles), spread ? static_cast<unsigned>(chunks) : 1,
                 static_cast<unsigned>(shape.directions)};
  config.block.x = 32 * static_cast<unsigned>(std::max(fused.product_warps, kFewestFusedWarps));
  config.programmatic = true;
  return device::Launch(FusedStepKernel<Cell, T, kGroups>, config, stream, MakeRnnArgs<T>(shape, at, step), fused);
}

template <class T, int kGroups>
FusedLauncher FusedStepOf(RnnPart part) {
  switch (part) {
    case RnnPart::kLstm:
      return LaunchFusedAs<LstmCell, T, kGroups>;
    case RnnPart::kGru:
      return LaunchFusedAs<GruCell, T, kGroups>;
    case RnnPart::kGruReset:
      return LaunchFusedAs<GruResetCell, T, kGroups>;
    case RnnPart::kGruProposal:
      return LaunchFusedAs<GruProposalCell, T, kGroups>;
    case RnnPart::kRnn:
      break;
  }
  return LaunchFusedAs<PlainCell, T, kGroups>;
}

template <class T>
FusedLauncher FusedStepOf(RnnPart part, int groups) {
  return groups <= 2 ? FusedStepOf<T, 2>(part) : groups <= 4 ? FusedStepOf<T, 4>(part) : FusedStepOf<T, 8>(part);
}

}  // namespace cudaep::kernels
