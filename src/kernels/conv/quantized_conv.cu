#include <algorithm>
#include <cmath>

#include "core/checked_math.h"
#include "kernels/common/trigger.cuh"
#include "kernels/conv/quantized_codes.cuh"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

using quantized::Arguments, quantized::kMmaBytes, quantized::kMmaColumns, quantized::kMmaRows, quantized::Piece;

template <class S>
using Sums = device::FragmentD<int32_t>[S::kRowTiles][S::kColumnTiles];

// sums += pixels * weights of 32 bytes of the step.
template <class S>
__device__ __forceinline__ void Multiply(const uint8_t* stage, int pixel, int channel, int depth, Sums<S>& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8, row = lane % 8;
  device::FragmentA<int8_t> a[S::kRowTiles];
#pragma unroll
  for (int i = 0; i < S::kRowTiles; ++i) {
    device::LoadMatrix<4>(
        a[i].word, stage + quantized::PlaceOf<S>(pixel + i * kMmaRows + matrix % 2 * 8 + row, depth * 2 + matrix / 2));
  }
  device::FragmentB<int8_t> b[S::kColumnTiles];
#pragma unroll
  for (int j = 0; j < S::kColumnTiles; j += 2) {
    uint32_t word[4];
    const int line = S::kPixels + channel + j * kMmaColumns + matrix / 2 * 8 + row;
    device::LoadMatrix<4>(word, stage + quantized::PlaceOf<S>(line, depth * 2 + matrix % 2));
    b[j] = {{word[0], word[1]}}, b[j + 1] = {{word[2], word[3]}};
  }
#pragma unroll
  for (int i = 0; i < S::kRowTiles; ++i) {
#pragma unroll
    for (int j = 0; j < S::kColumnTiles; ++j) device::Mma(sums[i][j], a[i], b[j]);
  }
}

// Sums of which each warp has a part: all go to shared memory, and each warp adds up those of some fragments.
template <class S>
__device__ __forceinline__ void ShareParts(const Sums<S>& sums, uint8_t* shared, int split) {
  auto* const parts = reinterpret_cast<Piece*>(shared) + split * S::kFragments * 32 + threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < S::kFragments; ++n) {
    const auto& value = sums[n / S::kColumnTiles][n % S::kColumnTiles].value;
    Piece piece;
#pragma unroll
    for (int v = 0; v < 4; ++v) piece.word[v] = static_cast<uint32_t>(value[v]);
    parts[n * 32] = piece;
  }
}
template <class S>
__device__ __forceinline__ device::FragmentD<int32_t> TotalOf(const uint8_t* shared, int n) {
  const auto* const parts = reinterpret_cast<const Piece*>(shared) + n * 32 + threadIdx.x % 32;
  device::FragmentD<int32_t> total = {};
#pragma unroll
  for (int split = 0; split < S::kSplits; ++split) {
    const Piece piece = parts[split * S::kFragments * 32];
#pragma unroll
    for (int v = 0; v < 4; ++v) total.value[v] += static_cast<int32_t>(piece.word[v]);
  }
  return total;
}

template <class S, bool kPoints>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    QuantizedConvKernel(void* y, __grid_constant__ const Arguments p) {
  auto* const shared = device::DynamicShared<uint8_t>();
  __shared__ quantized::Vectors<S::kChannels> vectors;
  const QuantizedConv& conv = p.conv;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  uint32_t channel_tile;
  const int first_pixel = static_cast<int>(p.channel_tiles.DivideWithRemainder(blockIdx.x, &channel_tile)) * S::kPixels;
  const int first_channel = static_cast<int>(channel_tile) * S::kChannels;
  const int inner = conv.kernel_h * conv.kernel_w * conv.channels, steps = CeilDiv(inner, S::kStepBytes);

  quantized::TileLoader<S, kPoints> loader(p, first_pixel, first_channel);
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
  if (kEarly && loads_residual) quantized::LoadResidual<S>(p, first_pixel, first_channel, residual);

  const int split = warp % S::kSplits, part = warp / S::kSplits;
  const int warp_pixel = part / S::kChannelWarps * S::kWarpPixels;
  const int warp_channel = part % S::kChannelWarps * S::kWarpChannels;
  Sums<S> sums = {};
  int stage = 0, next_stage = S::kStages - 1;
  for (int step = 0; step < steps; ++step) {
    device::WaitForCopies<S::kStages - 2>();
    __syncthreads();
    if (step + S::kStages - 1 < steps) {
      loader.LoadWeights(shared + next_stage * S::kStageBytes);
      loader.LoadPixels(shared + next_stage * S::kStageBytes);
    }
    device::CommitCopies();
    const uint8_t* const tile = shared + stage * S::kStageBytes;
    const int left = inner - step * S::kStepBytes;
    if (left >= S::kStepBytes) {
#pragma unroll
      for (int n = 0; n < S::kDepths / S::kSplits; ++n) {
        Multiply<S>(tile, warp_pixel, warp_channel, n * S::kSplits + split, sums);
      }
    } else {
#pragma unroll 1
      for (int depth = split; depth * kMmaBytes < left; depth += S::kSplits) {
        Multiply<S>(tile, warp_pixel, warp_channel, depth, sums);
      }
    }
    stage = stage + 1 == S::kStages ? 0 : stage + 1;
    next_stage = next_stage + 1 == S::kStages ? 0 : next_stage + 1;
  }

  if (!kEarly && loads_residual) quantized::LoadResidual<S>(p, first_pixel, first_channel, residual);
  uint8_t* const codes = shared + S::kPartBytes;
  __syncthreads();  // the tiles' memory is the codes' now
  if (conv.has_residual) quantized::PlaceResidual<S>(p, first_pixel, first_channel, residual, codes);
  if constexpr (S::kSplits > 1) ShareParts<S>(sums, shared, split);
  if (S::kSplits > 1 || conv.has_residual) __syncthreads();
  const auto finish = [&](auto form) {
    const quantized::Finisher<S, decltype(form)::value> finisher(p, vectors, first_pixel, first_channel, codes, y);
    const auto finish_at = [&](const device::FragmentD<int32_t>& of_lane, int i, int j) {
      finisher(of_lane, warp_pixel + i * kMmaRows + device::MmaRow(lane, 0),
               warp_channel + j * kMmaColumns + device::MmaColumn(lane, 0));
    };
    if constexpr (S::kSplits == 1) {
#pragma unroll
      for (int n = 0; n < S::kFragments; ++n) {
        const int i = n % S::kRowTiles, j = n / S::kRowTiles;
        finish_at(sums[i][j], i, j);
      }
    } else {
      for (int n = split; n < S::kFragments; n += S::kSplits) {
        finish_at(TotalOf<S>(shared, n), n / S::kColumnTiles, n % S::kColumnTiles);
      }
    }
  };
  using quantized::Form;
  if (!conv.to_codes) return finish(std::integral_constant<Form, Form::kNumbers>());
  if (conv.has_residual) {
    finish(std::integral_constant<Form, Form::kSums>());
  } else {
    finish(std::integral_constant<Form, Form::kCodes>());
  }
  __syncthreads();
  quantized::StoreCodes<S>(p, first_pixel, first_channel, codes, y);
}

struct Tile {
  int pixels, channels, threads, step_bytes, stage_bytes, stages, result_bytes;
  void (*windows)(void*, Arguments);
  void (*points)(void*, Arguments);
};

template <class S>
Tile MakeTile() {
  return {.pixels = S::kPixels,
          .channels = S::kChannels,
          .threads = S::kThreads,
          .step_bytes = S::kStepBytes,
          .stage_bytes = S::kStageBytes,
          .stages = S::kStages,
          .result_bytes = S::kResultBytes,
          .windows = QuantizedConvKernel<S, false>,
          .points = QuantizedConvKernel<S, true>};
}

// At most 99 KB of shared memory: what devices of consumers have.
Tile TileOf(QuantizedConvTile tile) {
  switch (tile) {
    case QuantizedConvTile::k128x128:
      return MakeTile<quantized::Tiling<128, 128, 64, 32, 1, 3, 2>>();
    case QuantizedConvTile::k128x64:
      return MakeTile<quantized::Tiling<128, 64, 64, 32, 1, 3, 3>>();
    case QuantizedConvTile::k64x32:
      return MakeTile<quantized::Tiling<64, 32, 32, 16, 1, 5, 4>>();
    case QuantizedConvTile::k64x64:
      return MakeTile<quantized::Tiling<64, 64, 32, 32, 1, 3, 4>>();
    default:
      return MakeTile<quantized::Tiling<32, 32, 32, 32, 8, 6, 2>>();
  }
}

bool IsOfPoints(const QuantizedConv& conv) {
  return conv.kernel_h == 1 && conv.kernel_w == 1 && conv.pad_top == 0 && conv.pad_left == 0 &&
         int64_t{conv.out_h - 1} * conv.stride_h < conv.in_h && int64_t{conv.out_w - 1} * conv.stride_w < conv.in_w;
}

quantized::Quantizer QuantizerOf(const Coding& coding, const Bounds& bounds, bool to_codes) {
  if (!to_codes) return {.reciprocal = {}, .scale = 1, .zero = 0, .low = bounds.low, .high = bounds.high};
  const float lowest = static_cast<float>(coding.lowest - coding.zero) * coding.scale;
  const float highest = static_cast<float>(coding.lowest + 255 - coding.zero) * coding.scale;
  return {.reciprocal = coding.reciprocal,
          .scale = coding.scale,
          .zero = static_cast<float>(coding.zero),
          .low = std::fmin(std::fmax(bounds.low, lowest), highest),
          .high = std::fmax(std::fmin(bounds.high, highest), lowest)};
}

}  // namespace

QuantizedConvTile QuantizedConvTileOf(const QuantizedConv& conv, int multiprocessors) {
  // What an element of each tile costs, the inner dimension apart, found on an H200: the larger the tile the less
  // is read. A multiprocessor's tiles come one after the other, and half of one is what goes by before and after.
  constexpr float kCosts[kQuantizedConvTiles] = {2.6f, 1.8f, 1.4f, 1.2f, 1.0f};
  auto best = QuantizedConvTile::k32x32;
  float least = std::numeric_limits<float>::infinity();
  for (int i = 0; i < kQuantizedConvTiles; ++i) {
    const Tile tile = TileOf(static_cast<QuantizedConvTile>(i));
    const int64_t tiles = CeilDiv<int64_t>(conv.pixels(), tile.pixels) * CeilDiv(conv.out_channels, tile.channels);
    const auto rounds = static_cast<float>(CeilDiv<int64_t>(tiles, multiprocessors)) + 0.5f;
    const float cost = rounds * static_cast<float>(tile.pixels * tile.channels) * kCosts[i];
    if (cost <= least) best = static_cast<QuantizedConvTile>(i), least = cost;
  }
  return best;
}

Status LaunchQuantizedConv(const QuantizedConv& conv, QuantizedConvTile tile, bool constant_weights,
                           const QuantizedConvPointers& at, device::Stream stream) {
  if (conv.pixels() == 0 || conv.out_channels == 0) return Status::Ok();
  if (conv.channels % kQuantizedConvPack != 0 || !IsAligned(at.x, 16) || !IsAligned(at.w, 16)) {
    return InvalidArgument("codes of ", conv.channels, " channels that are no whole packs, or not aligned to them");
  }
  const Tile shape = TileOf(tile);
  const int64_t image_bytes = int64_t{conv.in_h} * conv.in_w * conv.channels;
  const int64_t image_pixels = int64_t{conv.out_h} * conv.out_w;
  const int64_t most = std::numeric_limits<int32_t>::max();  // of bytes and pixels of a launch
  const int64_t images = std::clamp<int64_t>(most / std::max<int64_t>({image_bytes, image_pixels, 1}), 1, conv.batch);
  Arguments p{.conv = conv, .at = at};
  p.y = QuantizerOf(conv.y, conv.bounds, conv.to_codes);
  p.sum = QuantizerOf(conv.sum, conv.sum_bounds, conv.to_codes);
  p.channel_tiles = FastDivider(CeilDiv<uint32_t>(conv.out_channels, shape.channels));
  p.out_w = FastDivider(conv.out_w), p.out_h = FastDivider(conv.out_h);
  p.packs = conv.out_channels % 16 == 0 && IsAligned(at.y, 16) && IsAligned(at.residual, 16);
  p.constant_weights = constant_weights;
  device::LaunchConfig config;
  config.block.x = static_cast<unsigned>(shape.threads);
  const int64_t steps = CeilDiv<int64_t>(int64_t{conv.kernel_h} * conv.kernel_w * conv.channels, shape.step_bytes);
  const auto stages = static_cast<int>(std::min<int64_t>(steps, shape.stages));
  config.shared_bytes = static_cast<size_t>(std::max(stages * shape.stage_bytes, shape.result_bytes));
  config.programmatic = true;
  for (int64_t first = 0; first < conv.batch; first += images) {
    const int64_t count = std::min(images, conv.batch - first), outputs = first * image_pixels * conv.out_channels;
    p.pixels = static_cast<int32_t>(count * image_pixels);
    p.at.x = static_cast<const std::byte*>(at.x) + first * image_bytes;
    if (conv.has_residual) p.at.residual = static_cast<const std::byte*>(at.residual) + outputs;
    p.at.y = static_cast<std::byte*>(at.y) + outputs * (conv.to_codes ? 1 : int64_t{sizeof(float)});
    config.grid.x = CeilDiv<unsigned>(p.pixels, shape.pixels) * p.channel_tiles.divisor;
    CUDAEP_RETURN_IF_ERROR(device::Launch(IsOfPoints(conv) ? shape.points : shape.windows, config, stream, p.at.y, p));
  }
  return Status::Ok();
}

}  // namespace cudaep::kernels
