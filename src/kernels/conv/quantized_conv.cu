#include <algorithm>
#include <cstddef>

#include "core/checked_math.h"
#include "device/async_copy.h"
#include "device/tensor_core.h"
#include "kernels/conv/quantized_conv.h"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

constexpr int kStepBytes = 64;  // of the inner dimension (row and column of the window, channel)
constexpr int kPieces = kStepBytes / 16;
constexpr int kMmaRows = 16, kMmaColumns = 8, kMmaBytes = 32;
constexpr int kWarpChannels = 32;
constexpr int kMostSharedBytes = 48 << 10;

struct Arguments {
  QuantizedConv conv;
  QuantizedConvPointers at;
  int64_t pixels;
  // Of four bytes: without padding, where the simulated device, which looks for pointers, might find an old one.
  int32_t packs;  // of 16 elements of y and the residual may be loaded and stored at once
  int32_t constant_weights;
};
static_assert(offsetof(Arguments, constant_weights) + sizeof(int32_t) == sizeof(Arguments));

struct alignas(16) Piece {
  uint32_t word[4];
};

template <int kPixels, int kChannels, int kWarpPixels>
struct Tiling {
  static constexpr int kPixelWarps = kPixels / kWarpPixels, kChannelWarps = kChannels / kWarpChannels;
  static constexpr int kThreads = 32 * kPixelWarps * kChannelWarps;
  static constexpr int kStageBytes = (kPixels + kChannels) * kStepBytes;
  static constexpr int kStages = kMostSharedBytes / kStageBytes < 4 ? kMostSharedBytes / kStageBytes : 4;
  static constexpr int kRowsAtOnce = kThreads / kPieces;  // of a tile, that all threads bring
  static constexpr int kRowTiles = kWarpPixels / kMmaRows, kColumnTiles = kWarpChannels / kMmaColumns;
  static constexpr int kCodeStride = kChannels + 16;  // of a pixel's codes on their way out
  static_assert(kStages >= 3 && kPixels * kCodeStride <= kStages * kStageBytes);
};

// Where 16 bytes of a row of a tile lie: eight rows at the same place in the row are in different banks.
__device__ __forceinline__ int PlaceOf(int row, int piece) {
  return row * kStepBytes + ((piece ^ (row / 2 % kPieces)) * 16);
}

// What a thread brings of the pixels' side: one piece of the inner dimension of some pixels.
template <int kRows, int kRowsAtOnce>
struct PixelLoader {
  const uint8_t* image[kRows];
  int row[kRows], column[kRows];  // of the window's first element in the image
  int channel, kernel_row = 0, kernel_column = 0;

  __device__ __forceinline__ PixelLoader(const Arguments& p, int64_t first, int line, int piece) : channel(piece * 16) {
    const QuantizedConv& conv = p.conv;
    const int64_t image_bytes = int64_t{conv.in_h} * conv.in_w * conv.channels;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int64_t pixel = first + line + i * kRowsAtOnce;
      const int64_t y_row = pixel / conv.out_w, n = y_row / conv.out_h;
      image[i] = static_cast<const uint8_t*>(p.at.x) + n * image_bytes;
      row[i] = static_cast<int>(y_row % conv.out_h) * conv.stride_h - conv.pad_top;
      column[i] = static_cast<int>(pixel % conv.out_w) * conv.stride_w - conv.pad_left;
      if (pixel >= p.pixels) row[i] = -conv.dilation_h * conv.kernel_h;  // beside every image
    }
    Settle(conv);
  }
  __device__ __forceinline__ void Settle(const QuantizedConv& conv) {
    while (channel >= conv.channels && kernel_row < conv.kernel_h) {
      channel -= conv.channels;
      if (++kernel_column == conv.kernel_w) kernel_column = 0, ++kernel_row;
    }
  }
  // What lies beside the image, or behind the inner dimension where weights are zero, is the code of zero.
  __device__ __forceinline__ void Load(const QuantizedConv& conv, uint8_t* tile, int line, int piece) {
    const auto code = static_cast<uint32_t>(static_cast<uint8_t>(conv.x_zero)) * 0x01010101u;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      uint8_t* const to = tile + PlaceOf(line + i * kRowsAtOnce, piece);
      const int h = row[i] + kernel_row * conv.dilation_h, w = column[i] + kernel_column * conv.dilation_w;
      const bool inside = kernel_row < conv.kernel_h && static_cast<uint32_t>(h) < static_cast<uint32_t>(conv.in_h) &&
                          static_cast<uint32_t>(w) < static_cast<uint32_t>(conv.in_w);
      if (inside) {
        device::CopyAsync<16>(to, image[i] + (h * conv.in_w + w) * conv.channels + channel);
      } else {
        *reinterpret_cast<Piece*>(to) = {{code, code, code, code}};
      }
    }
    channel += kStepBytes;
    Settle(conv);
  }
};

__device__ __forceinline__ float Bound(float x, const Bounds& bounds) {
  return fminf(fmaxf(x, bounds.low), bounds.high);
}
__device__ __forceinline__ int32_t CodeOf(float number, const Coding& coding) {
  const float code = rintf(number / coding.scale) + static_cast<float>(coding.zero);
  const auto lowest = static_cast<float>(coding.lowest);
  return static_cast<int32_t>(fminf(fmaxf(code, lowest), lowest + 255.0f));
}
__device__ __forceinline__ float NumberOf(uint32_t byte, const Coding& coding) {
  const int32_t code = coding.lowest < 0 ? static_cast<int8_t>(byte) : static_cast<int32_t>(byte & 0xffu);
  return static_cast<float>(code - coding.zero) * coding.scale;
}

// The code of the sum of the numbers of two.
__device__ __forceinline__ uint32_t AddCodes(const QuantizedConv& conv, uint32_t code, uint32_t residual) {
  const float sum = NumberOf(code, conv.y) + NumberOf(residual, conv.residual);
  return static_cast<uint32_t>(CodeOf(Bound(sum, conv.sum_bounds), conv.sum)) & 0xffu;
}

// Codes of a block in shared memory, [pixels][kStride], to y.
template <int kPixels, int kChannels, int kStride, int kThreads>
__device__ __forceinline__ void StoreCodes(const Arguments& p, void* result, const uint8_t* codes, int64_t first_pixel,
                                           int first_channel) {
  const QuantizedConv& conv = p.conv;
  for (int i = static_cast<int>(threadIdx.x); i < kPixels * kChannels / 16; i += kThreads) {
    const int line = i / (kChannels / 16), place = i % (kChannels / 16) * 16;
    const int64_t pixel = first_pixel + line;
    if (pixel >= p.pixels || first_channel + place >= conv.out_channels) continue;
    const int64_t to = pixel * conv.out_channels + first_channel + place;
    const uint8_t* const from = codes + line * kStride + place;
    auto* const y = static_cast<uint8_t*>(result) + to;
    const auto* const residual = static_cast<const uint8_t*>(p.at.residual) + (conv.has_residual ? to : 0);
    if (p.packs) {
      Piece piece = *reinterpret_cast<const Piece*>(from);
      if (conv.has_residual) {
        const Piece other = *reinterpret_cast<const Piece*>(residual);
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          uint32_t word = 0;
#pragma unroll
          for (int b = 0; b < 32; b += 8) word |= AddCodes(conv, piece.word[w] >> b, other.word[w] >> b) << b;
          piece.word[w] = word;
        }
      }
      *reinterpret_cast<Piece*>(y) = piece;
      continue;
    }
    for (int b = 0; b < device::Min(16, conv.out_channels - first_channel - place); ++b) {
      y[b] = static_cast<uint8_t>(conv.has_residual ? AddCodes(conv, from[b], residual[b]) : from[b]);
    }
  }
}

// kWarpPixels x kWarpChannels of the result are a warp's.
template <int kPixels, int kChannels, int kWarpPixels>
__global__ void __launch_bounds__(Tiling<kPixels, kChannels, kWarpPixels>::kThreads)
    QuantizedConvKernel(void* y, __grid_constant__ const Arguments p) {
  using S = Tiling<kPixels, kChannels, kWarpPixels>;
  alignas(128) __shared__ uint8_t shared[S::kStages * S::kStageBytes];
  const QuantizedConv& conv = p.conv;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int line = thread / kPieces, piece = thread % kPieces;
  const int64_t first_pixel = static_cast<int64_t>(blockIdx.x) * kPixels;
  const int first_channel = static_cast<int>(blockIdx.y) * kChannels;
  const int inner = conv.kernel_h * conv.kernel_w * conv.channels, steps = (inner + kStepBytes - 1) / kStepBytes;

  const auto load_weights = [&](int step) {
    uint8_t* const tile = shared + step % S::kStages * S::kStageBytes + kPixels * kStepBytes;
    const int k = step * kStepBytes + piece * 16;
#pragma unroll
    for (int row = 0; row < kChannels; row += S::kRowsAtOnce) {
      const int channel = first_channel + line + row;
      const bool exists = channel < conv.out_channels && k < inner;
      const int64_t from = exists ? int64_t{channel} * inner + k : 0;
      device::CopyAsync<16>(tile + PlaceOf(line + row, piece), static_cast<const uint8_t*>(p.at.w) + from,
                            exists ? 16 : 0);
    }
  };
  PixelLoader<kPixels / S::kRowsAtOnce, S::kRowsAtOnce> pixels(p, first_pixel, line, piece);
  const auto load_pixels = [&](int step) {
    pixels.Load(conv, shared + step % S::kStages * S::kStageBytes, line, piece);
  };

  if (!p.constant_weights) device::GridDependencyWait();
  for (int step = 0; step < S::kStages - 1; ++step) {
    if (step < steps) load_weights(step);
  }
  if (p.constant_weights) device::GridDependencyWait();
  for (int step = 0; step < S::kStages - 1; ++step) {
    if (step < steps) load_pixels(step);
    device::CommitCopies();
  }

  const int warp_pixel = warp / S::kChannelWarps * kWarpPixels, warp_channel = warp % S::kChannelWarps * kWarpChannels;
  const int matrix = lane / 8, matrix_row = lane % 8;
  device::FragmentD<int32_t> sums[S::kRowTiles][S::kColumnTiles] = {};
  for (int step = 0; step < steps; ++step) {
    device::WaitForCopies<S::kStages - 2>();
    __syncthreads();
    if (step + S::kStages - 1 < steps) {
      load_weights(step + S::kStages - 1);
      load_pixels(step + S::kStages - 1);
    }
    device::CommitCopies();
    const uint8_t* const tile = shared + step % S::kStages * S::kStageBytes;
    const uint8_t* const weights = tile + kPixels * kStepBytes;
#pragma unroll
    for (int half = 0; half < kStepBytes / kMmaBytes; ++half) {
      device::FragmentA<int8_t> a[S::kRowTiles];
#pragma unroll
      for (int i = 0; i < S::kRowTiles; ++i) {
        const int row = warp_pixel + i * kMmaRows + matrix % 2 * 8 + matrix_row;
        device::LoadMatrix<4>(a[i].word, tile + PlaceOf(row, half * 2 + matrix / 2));
      }
      device::FragmentB<int8_t> b[S::kColumnTiles];
#pragma unroll
      for (int j = 0; j < S::kColumnTiles; j += 2) {
        const int row = warp_channel + j * kMmaColumns + matrix / 2 * 8 + matrix_row;
        uint32_t word[4];
        device::LoadMatrix<4>(word, weights + PlaceOf(row, half * 2 + matrix % 2));
        b[j] = {{word[0], word[1]}}, b[j + 1] = {{word[2], word[3]}};
      }
#pragma unroll
      for (int i = 0; i < S::kRowTiles; ++i) {
#pragma unroll
        for (int j = 0; j < S::kColumnTiles; ++j) device::Mma(sums[i][j], a[i], b[j]);
      }
    }
  }
  __syncthreads();  // the tiles' memory is the codes' now

#pragma unroll
  for (int j = 0; j < S::kColumnTiles; ++j) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int column = warp_channel + j * kMmaColumns + device::MmaColumn(lane, c), channel = first_channel + column;
      if (channel >= conv.out_channels) continue;
      const float scale = p.at.scale[channel], bias = p.at.bias == nullptr ? 0.0f : p.at.bias[channel];
      const int32_t shift = p.at.shift == nullptr ? 0 : p.at.shift[channel];
#pragma unroll
      for (int i = 0; i < S::kRowTiles; ++i) {
#pragma unroll
        for (int v = c; v < 4; v += 2) {
          const int row = warp_pixel + i * kMmaRows + device::MmaRow(lane, v);
          const auto sum = static_cast<float>(sums[i][j].value[v] + shift);
          const float number = Bound(sum * scale + bias, conv.bounds);
          if (conv.to_codes) {
            shared[row * S::kCodeStride + column] = static_cast<uint8_t>(CodeOf(number, conv.y));
          } else if (first_pixel + row < p.pixels) {
            static_cast<float*>(y)[(first_pixel + row) * conv.out_channels + channel] = number;
          }
        }
      }
    }
  }
  if (!conv.to_codes) return;
  __syncthreads();
  StoreCodes<kPixels, kChannels, S::kCodeStride, S::kThreads>(p, y, shared, first_pixel, first_channel);
}

struct Tile {
  int pixels, channels, threads;
  void (*kernel)(void*, Arguments);
};

template <int kPixels, int kChannels, int kWarpPixels>
Tile MakeTile() {
  return {kPixels, kChannels, Tiling<kPixels, kChannels, kWarpPixels>::kThreads,
          QuantizedConvKernel<kPixels, kChannels, kWarpPixels>};
}

Tile TileOf(QuantizedConvTile tile) {
  if (tile == QuantizedConvTile::k128x128) return MakeTile<128, 128, 64>();
  return tile == QuantizedConvTile::k128x64 ? MakeTile<128, 64, 64>() : MakeTile<64, 64, 32>();
}

int64_t BlocksOf(const QuantizedConv& conv, const Tile& tile) {
  return CeilDiv<int64_t>(conv.pixels(), tile.pixels) * CeilDiv<int64_t>(conv.out_channels, tile.channels);
}

}  // namespace

QuantizedConvTile QuantizedConvTileOf(const QuantizedConv& conv, int multiprocessors) {
  // The larger a block's part the less is read; but all multiprocessors should have one.
  for (const auto tile : {QuantizedConvTile::k128x128, QuantizedConvTile::k128x64}) {
    const bool fills = tile == QuantizedConvTile::k128x64 || conv.out_channels > 64;
    if (fills && BlocksOf(conv, TileOf(tile)) >= multiprocessors) return tile;
  }
  return QuantizedConvTile::k64x64;
}

Status LaunchQuantizedConv(const QuantizedConv& conv, QuantizedConvTile tile, bool constant_weights,
                           const QuantizedConvPointers& at, device::Stream stream) {
  if (conv.pixels() == 0 || conv.out_channels == 0) return Status::Ok();
  if (conv.channels % kQuantizedConvPack != 0 || !IsAligned(at.x, 16) || !IsAligned(at.w, 16)) {
    return InvalidArgument("codes of ", conv.channels, " channels that are no whole packs, or not aligned to them");
  }
  const Tile shape = TileOf(tile);
  const bool packs = conv.out_channels % 16 == 0 && IsAligned(at.y, 16) && IsAligned(at.residual, 16);
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(conv.pixels(), shape.pixels));
  config.grid.y = static_cast<unsigned>(CeilDiv<int64_t>(conv.out_channels, shape.channels));
  config.block.x = static_cast<unsigned>(shape.threads);
  config.programmatic = true;
  return device::Launch(
      shape.kernel, config, stream, at.y,
      Arguments{.conv = conv, .at = at, .pixels = conv.pixels(), .packs = packs, .constant_weights = constant_weights});
}

}  // namespace cudaep::kernels
