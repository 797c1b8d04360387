// QuantizedConv's kernel, whose products are those of the file that includes it: a type Products of a Tiling, with
//   kSlack, AlignStages(shared)         bytes that the stages' alignment may take, and where they begin
//   Products(pixel, channel, split)     of the calling warp's part of the tile
//   SeeCopies()                         what the thread brought to shared memory is seen by products after a barrier
//   Start(stage, adds), End(stage, left)
//                                       around what is loaded meanwhile; `left`: bytes of the inner dimension from the
//                                       stage's first on
//   Settle(), At(i, j)                  all is done; a fragment
//   ShareParts(shared), TotalOf(shared, n)
//                                       of a Tiling with kSplits: parts to shared memory, and the n-th fragment's sum
#pragma once

#include "core/checked_math.h"
#include "kernels/common/trigger.cuh"
#include "kernels/conv/quantized_codes.cuh"

namespace cudaep::kernels::quantized {

template <class S, class Products, bool kPoints>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    QuantizedConvKernel(void* y, __grid_constant__ const Arguments p) {
  uint8_t* const shared = Products::AlignStages(device::DynamicShared<uint8_t>());
  __shared__ Vectors<S::kChannels> vectors;
  const QuantizedConv& conv = p.conv;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  uint32_t channel_tile;
  const int first_pixel = static_cast<int>(p.channel_tiles.DivideWithRemainder(blockIdx.x, &channel_tile)) * S::kPixels;
  const int first_channel = static_cast<int>(channel_tile) * S::kChannels;
  const int inner = conv.kernel_h * conv.kernel_w * conv.channels, steps = CeilDiv(inner, S::kStepBytes);

  TileLoader<S, kPoints> loader(p, first_pixel, first_channel);
  if (!p.constant_weights) device::GridDependencyWait();
  for (int step = 0; step < device::Min(S::kStages - 1, steps); ++step) {
    loader.LoadWeights(shared + step * S::kStageBytes);
  }
  if (p.constant_weights) device::GridDependencyWait();
  TriggerDependentsOfSmallGrid();
  for (int step = 0; step < S::kStages - 1; ++step) {
    if (step < steps) loader.LoadPixels(shared + step * S::kStageBytes);
    device::CommitCopies();
  }
  if (threadIdx.x < S::kChannels) {
    vectors.Load(p, static_cast<int>(threadIdx.x), first_channel + static_cast<int>(threadIdx.x));
  }
  constexpr bool kEarly = S::kResiduals <= 2;
  Piece residual[S::kResiduals] = {};
  const bool loads_residual = conv.has_residual && p.packs;
  if (kEarly && loads_residual) LoadResidual<S>(p, first_pixel, first_channel, residual);

  const int split = warp % S::kSplits, part = warp / S::kSplits;
  const int warp_pixel = part / S::kChannelWarps * S::kWarpPixels;
  const int warp_channel = part % S::kChannelWarps * S::kWarpChannels;
  Products products(warp_pixel, warp_channel, split);
  int stage = 0, next_stage = S::kStages - 1;
  for (int step = 0; step < steps; ++step) {
    device::WaitForCopies<S::kStages - 2>();
    Products::SeeCopies();
    __syncthreads();
    const uint8_t* const tile = shared + stage * S::kStageBytes;
    const int left = inner - step * S::kStepBytes;
    products.Start(tile, step != 0);
    if (step + S::kStages - 1 < steps) {
      loader.LoadWeights(shared + next_stage * S::kStageBytes);
      loader.LoadPixels(shared + next_stage * S::kStageBytes);
    }
    device::CommitCopies();
    products.End(tile, left);
    stage = stage + 1 == S::kStages ? 0 : stage + 1;
    next_stage = next_stage + 1 == S::kStages ? 0 : next_stage + 1;
  }

  products.Settle();
  if (!kEarly && loads_residual) LoadResidual<S>(p, first_pixel, first_channel, residual);
  uint8_t* const codes = shared + S::kPartBytes;
  __syncthreads();  // the tiles' memory is the codes' now
  if (conv.has_residual) PlaceResidual<S>(p, first_pixel, first_channel, residual, codes);
  if constexpr (S::kSplits > 1) products.ShareParts(shared);
  if (S::kSplits > 1 || conv.has_residual) __syncthreads();
  const auto finish = [&](auto form) {
    const Finisher<S, decltype(form)::value> finisher(p, vectors, first_pixel, first_channel, codes, y);
    const auto finish_at = [&](const device::FragmentD<int32_t>& of_lane, int i, int j) {
      finisher(of_lane, warp_pixel + i * kMmaRows + device::MmaRow(lane, 0),
               warp_channel + j * kMmaColumns + device::MmaColumn(lane, 0));
    };
    if constexpr (S::kSplits == 1) {
#pragma unroll
      for (int n = 0; n < S::kFragments; ++n) {
        const int i = n % S::kRowTiles, j = n / S::kRowTiles;
        finish_at(products.At(i, j), i, j);
      }
    } else {
      for (int n = split; n < S::kFragments; n += S::kSplits) {
        finish_at(Products::TotalOf(shared, n), n / S::kColumnTiles, n % S::kColumnTiles);
      }
    }
  };
  if (!conv.to_codes) return finish(std::integral_constant<Form, Form::kNumbers>());
  if (conv.has_residual) {
    finish(std::integral_constant<Form, Form::kSums>());
  } else {
    finish(std::integral_constant<Form, Form::kCodes>());
  }
  __syncthreads();
  StoreCodes<S>(p, first_pixel, first_channel, codes, y);
}

// A way to launch it.
struct Tile {
  int pixels, channels, threads, step_bytes, stage_bytes, stages, result_bytes;
  size_t slack;  // bytes of shared memory beside these
  void (*windows)(void*, Arguments);
  void (*points)(void*, Arguments);
};

template <class S, template <class> class Products>
Tile MakeTile() {
  return {.pixels = S::kPixels,
          .channels = S::kChannels,
          .threads = S::kThreads,
          .step_bytes = S::kStepBytes,
          .stage_bytes = S::kStageBytes,
          .stages = S::kStages,
          .result_bytes = S::kResultBytes,
          .slack = Products<S>::kSlack,
          .windows = QuantizedConvKernel<S, Products<S>, false>,
          .points = QuantizedConvKernel<S, Products<S>, true>};
}

// Products by warpgroups, of devices of 9.0: k128x64Groups and k128x128Groups.
Tile WarpgroupTile(QuantizedConvTile tile);

// Of codes alone, whose packs may be stored at once.
Status LaunchPoints(const Arguments& p, const WarpgroupPlan& plan, device::Stream stream);

}  // namespace cudaep::kernels::quantized
