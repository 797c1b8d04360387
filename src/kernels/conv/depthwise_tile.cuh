// The depthwise kernel for square windows of channels-last images.
//
// A thread has kPack channels of kRows x kColumns neighbouring outputs and goes down the rows that they read, the next
// one on its way meanwhile: each element that it reads is multiplied by all weights that want it, and one read of a
// weight serves kColumns outputs. Threads of a block share the weights of kTileChannels channels; neighbours read the
// same elements from the first-level cache. What bounds it are multiply-adds from 5x5 on, memory below that.
#pragma once

#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/common/trigger.cuh"
#include "kernels/conv/depthwise.h"
#include "kernels/epilogue/activate.cuh"
#include "kernels/fast_divide.h"

namespace cudaep::kernels {

inline constexpr int kDepthwisePack = 4;  // channels of a thread

// A place is what a thread computes, of all channels of a block's tile.
struct DepthwiseTileArgs {
  DepthwiseConv conv;
  FastDivider tiles;          // of channels
  FastDivider columns, rows;  // groups of output columns and rows
  int64_t first_image;        // images of earlier launches
  uint32_t places;
};

// Window and step, and what a thread computes; kAhead rows are read before they are needed.
template <int kTaps_, int kStep_, int kThreads_, int kColumns_, int kRows_, int kAhead_>
struct DepthwiseTiling {
  static constexpr int kTaps = kTaps_, kStep = kStep_, kThreads = kThreads_, kColumns = kColumns_, kRows = kRows_;
  static constexpr int kAhead = kAhead_, kPack = kDepthwisePack;
  static constexpr int kReadRows = (kRows - 1) * kStep + kTaps, kReadColumns = (kColumns - 1) * kStep + kTaps;
  static constexpr int kTileChannels = 32, kLanes = kTileChannels / kPack, kPlaces = kThreads / kLanes;
  static_assert(kReadColumns <= 32 && kAhead < kReadRows);
};

// Where a thread works. Channels count within the tile; past the tile's or the places' end there is nothing to do.
struct DepthwisePlace {
  int first_channel, tile_channels, channel;
  int column, row;  // numbers of groups
  int64_t image;
  bool active;
};
template <class Tiling>
__device__ __forceinline__ DepthwisePlace LocateDepthwise(const DepthwiseTileArgs& args) {
  uint32_t tile, column, row;
  const uint32_t first = args.tiles.DivideWithRemainder(blockIdx.x, &tile) * Tiling::kPlaces;
  const uint32_t place = first + threadIdx.x / Tiling::kLanes;
  const int64_t image = args.rows.DivideWithRemainder(args.columns.DivideWithRemainder(place, &column), &row);
  DepthwisePlace at{.first_channel = static_cast<int>(tile) * Tiling::kTileChannels,
                    .channel = static_cast<int>(threadIdx.x) % Tiling::kLanes * Tiling::kPack,
                    .column = static_cast<int>(column),
                    .row = static_cast<int>(row),
                    .image = args.first_image + image};
  at.tile_channels = device::Min(args.conv.in_channels - at.first_channel, Tiling::kTileChannels);
  at.active = place < args.places && at.channel < at.tile_channels;
  return at;
}

// Offsets within an image fit 31 bits, channels are whole packs and x, y and bias aligned to them. `constant_weights`:
// they are read while earlier work of the stream may still run.
template <class T, class Tiling, int kBlocks>
__global__ void __launch_bounds__(Tiling::kThreads, kBlocks)
    DepthwiseTileKernel(const T* x, const T* w, const T* bias, T* y, __grid_constant__ const DepthwiseTileArgs args) {
  constexpr int kTaps = Tiling::kTaps, kStep = Tiling::kStep, kPack = Tiling::kPack, kWindow = kTaps * kTaps;
  constexpr int kColumns = Tiling::kColumns, kRows = Tiling::kRows, kReadColumns = Tiling::kReadColumns;
  constexpr int kTileChannels = Tiling::kTileChannels, kBuffers = Tiling::kAhead + 1;
  __shared__ __align__(16) float weight[kWindow * kTileChannels];
  TriggerDependentsOfSmallGrid();
  const DepthwiseConv& conv = args.conv;
  const DepthwisePlace at = LocateDepthwise<Tiling>(args);
  if (!conv.constant_weights) device::GridDependencyWait();
  const T* const tile_weights = w + static_cast<int64_t>(at.first_channel) * kWindow;
  for (int i = static_cast<int>(threadIdx.x); i < at.tile_channels * kWindow; i += Tiling::kThreads) {
    weight[i % kWindow * kTileChannels + i / kWindow] = Load(tile_weights[i]);
  }
  if (conv.constant_weights) device::GridDependencyWait();
  __syncthreads();
  if (!at.active) return;

  const int channels = conv.in_channels, line_elems = conv.in_w * channels;
  const int channel = at.first_channel + at.channel, first = at.column * kColumns, first_row = at.row * kRows;
  const int top = first_row * kStep - conv.pad_top, left = first * kStep - conv.pad_left;
  const T* const from = x + at.image * conv.in_h * line_elems;
  const int corner = (top * conv.in_w + left) * channels + channel;
  uint32_t inside_columns = 0;  // of what is read
#pragma unroll
  for (int j = 0; j < kReadColumns; ++j) {
    inside_columns |= (left + j >= 0 && left + j < conv.in_w ? 1u : 0u) << j;
  }
  const auto read = [&](int i, RawPack<T, kPack>(&line)[kReadColumns]) {
    const uint32_t inside = top + i >= 0 && top + i < conv.in_h ? inside_columns : 0;
#pragma unroll
    for (int j = 0; j < kReadColumns; ++j) {
      line[j] = {};
      if ((inside >> j & 1) != 0) line[j] = LoadRaw<kPack>(from + (corner + i * line_elems + j * channels));
    }
  };

  float sum[kRows][kColumns][kPack], start[kPack] = {};
  if (bias != nullptr) UnpackCompute<T, kPack>(LoadRaw<kPack>(bias + channel), start);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int o = 0; o < kColumns; ++o) {
#pragma unroll
      for (int c = 0; c < kPack; ++c) sum[r][o][c] = start[c];
    }
  }
  RawPack<T, kPack> raw[kBuffers][kReadColumns];
#pragma unroll
  for (int i = 0; i < Tiling::kAhead; ++i) read(i, raw[i]);
#pragma unroll
  for (int i = 0; i < Tiling::kReadRows; ++i) {
    if (i + Tiling::kAhead < Tiling::kReadRows) read(i + Tiling::kAhead, raw[(i + Tiling::kAhead) % kBuffers]);
    float value[kReadColumns][kPack];
#pragma unroll
    for (int j = 0; j < kReadColumns; ++j) UnpackCompute<T, kPack>(raw[i % kBuffers][j], value[j]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int tap_row = i - r * kStep;
      if (tap_row < 0 || tap_row >= kTaps) continue;
#pragma unroll
      for (int k = 0; k < kTaps; ++k) {
        const auto taps = LoadPack<kPack>(weight + (tap_row * kTaps + k) * kTileChannels + at.channel);
#pragma unroll
        for (int o = 0; o < kColumns; ++o) {
#pragma unroll
          for (int c = 0; c < kPack; ++c) sum[r][o][c] += taps.value[c] * value[o * kStep + k][c];
        }
      }
    }
  }

  WithActivation<float>(conv.activation, conv.parameters, [&](auto function) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int o = 0; o < kColumns; ++o) {
#pragma unroll
        for (int c = 0; c < kPack; ++c) sum[r][o][c] = function(sum[r][o][c]);
      }
    }
  });
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (first_row + r >= conv.out_h) break;
    T* const to = y + ((at.image * conv.out_h + first_row + r) * conv.out_w + first) * channels + channel;
#pragma unroll
    for (int o = 0; o < kColumns; ++o) {
      if (first + o < conv.out_w) StoreWords<kPack>(to + o * channels, PackCompute<T, kPack>(sum[r][o]));
    }
  }
}

}  // namespace cudaep::kernels
