// How a block of QuantizedConv brings its part of pixels and weights to shared memory.
#pragma once

#include <cstddef>

#include "device/async_copy.h"
#include "kernels/conv/quantized_conv.h"
#include "kernels/conv/quantizer.cuh"
#include "kernels/fast_divide.h"
#include "kernels/quant/code_rounding.h"

namespace cudaep::kernels::quantized {

struct Arguments {
  QuantizedConv conv;
  QuantizedConvPointers at;
  // Of four bytes each: without padding, where the simulated device, which looks for pointers, might find an old one.
  Quantizer y, sum;
  CodeCoding residual;
  float y_ratio, residual_ratio;  // scales of y and the residual by that of their sum, divided by 256
  FastDivider channel_tiles, out_w, out_h;
  int32_t pixels;
  int32_t packs;  // of 16 elements of y and the residual may be loaded and stored at once
  int32_t constant_weights;
  int32_t unused = 0;
};
static_assert(offsetof(Arguments, unused) + sizeof(int32_t) == sizeof(Arguments));

struct alignas(16) Piece {
  uint32_t word[4];
};

inline constexpr int kMmaRows = 16, kMmaColumns = 8, kMmaBytes = 32;

// A block's kPixels x kChannels of the result: its warps have kWarpPixels x kWarpChannels each, or all of it for one of
// kSplits parts of each step along the inner dimension (row and column of the window, channel). Where warps multiply by
// warpgroups, four of them have 64 pixels, 16 each, and all channels.
template <int pixels, int channels, int warp_pixels, int warp_channels, int splits, int stages, int blocks>
struct Tiling {
  static constexpr int kPixels = pixels, kChannels = channels, kWarpPixels = warp_pixels;
  static constexpr int kWarpChannels = warp_channels, kSplits = splits, kStages = stages, kBlocks = blocks;
  static constexpr int kStepBytes = splits > 4 ? 32 * splits : 128;
  static constexpr int kPieces = kStepBytes / 16, kDepths = kStepBytes / kMmaBytes;
  static constexpr int kChannelWarps = channels / warp_channels;
  static constexpr int kThreads = 32 * splits * kChannelWarps * (pixels / warp_pixels);
  static constexpr int kStageBytes = (pixels + channels) * kStepBytes;
  static constexpr int kRowsAtOnce = kThreads / kPieces;  // of a tile, that all threads bring
  static constexpr int kRowTiles = warp_pixels / kMmaRows, kColumnTiles = warp_channels / kMmaColumns;
  static constexpr int kFragments = kRowTiles * kColumnTiles;
  static constexpr int kPartBytes = splits == 1 ? 0 : splits * kFragments * 512;  // of sums to be added up
  static constexpr int kCodeStride = channels + 16;                               // of a pixel's codes
  static constexpr int kResultBytes = kPartBytes + pixels * kCodeStride;
  static constexpr int kResiduals = (pixels * channels / 16 + kThreads - 1) / kThreads;  // pieces of a thread
  static_assert(kRowsAtOnce % 8 == 0 && pixels % kRowsAtOnce == 0 && channels % kRowsAtOnce == 0);
  static_assert(splits == 1 || (pixels == warp_pixels && channels == warp_channels && kFragments % splits == 0));
  static_assert(channels <= kThreads && kDepths % splits == 0);
};

// Where 16 bytes of a row of a tile lie: eight rows at the same place in the row are in different banks.
template <class S>
__device__ __forceinline__ int PlaceOf(int row, int piece) {
  return row * S::kStepBytes + ((piece ^ (row % 8)) * 16);
}

// What a thread brings of each step: one piece of the inner dimension of some pixels and channels. Those behind the
// last bring the last one's, which nobody stores. Positions wrap around at 2^32: they are within 2^31 bytes of x.
// kPoints: windows are single pixels, all inside the image.
template <class S, bool kPoints>
class TileLoader {
 public:
  __device__ __forceinline__ TileLoader(const Arguments& p, int first_pixel, int first_channel)
      : p_(p), inner_(p.conv.kernel_h * p.conv.kernel_w * p.conv.channels) {
    const QuantizedConv& conv = p.conv;
    const int thread = static_cast<int>(threadIdx.x), line = thread / S::kPieces, piece = thread % S::kPieces;
    place_ = PlaceOf<S>(line, piece);
    weight_k_ = piece * 16;
    channel_ = piece * 16;
#pragma unroll
    for (int i = 0; i < kWeightRows; ++i) {
      const int channel = device::Min(first_channel + line + i * S::kRowsAtOnce, conv.out_channels - 1);
      weight_[i] = static_cast<uint32_t>(channel) * static_cast<uint32_t>(inner_) + static_cast<uint32_t>(piece * 16);
    }
#pragma unroll
    for (int i = 0; i < kPixelRows; ++i) {
      const int pixel = device::Min(first_pixel + line + i * S::kRowsAtOnce, p.pixels - 1);
      uint32_t h, w;
      const uint32_t n = p.out_h.DivideWithRemainder(p.out_w.DivideWithRemainder(static_cast<uint32_t>(pixel), &w), &h);
      const int row = static_cast<int>(h) * conv.stride_h - conv.pad_top;
      const int column = static_cast<int>(w) * conv.stride_w - conv.pad_left;
      if constexpr (!kPoints) row_[i] = row, column_[i] = column;
      origin_[i] =
          ((n * static_cast<uint32_t>(conv.in_h) + static_cast<uint32_t>(row)) * static_cast<uint32_t>(conv.in_w) +
           static_cast<uint32_t>(column)) *
          static_cast<uint32_t>(conv.channels);
    }
    if constexpr (!kPoints) Settle();
  }

  // The next step's weights, zeros behind the inner dimension.
  __device__ __forceinline__ void LoadWeights(uint8_t* stage) {
    uint8_t* const to = stage + S::kPixels * S::kStepBytes + place_;
    const auto* const w = static_cast<const uint8_t*>(p_.at.w);
    const bool exists = weight_k_ < inner_;
#pragma unroll
    for (int i = 0; i < kWeightRows; ++i) {
      device::CopyAsync<16>(to + i * S::kRowsAtOnce * S::kStepBytes, w + (exists ? weight_[i] : 0), exists ? 16 : 0);
      weight_[i] += S::kStepBytes;
    }
    weight_k_ += S::kStepBytes;
  }

  // The next step's pixels. What lies beside the image is the code of zero; what lies behind the inner dimension may be
  // any, the weights there being zero.
  __device__ __forceinline__ void LoadPixels(uint8_t* stage) {
    uint8_t* const to = stage + place_;
    const auto* const x = static_cast<const uint8_t*>(p_.at.x);
    const QuantizedConv& conv = p_.conv;
    if constexpr (kPoints) {
      const bool exists = channel_ < inner_;
#pragma unroll
      for (int i = 0; i < kPixelRows; ++i) {
        const uint32_t from = exists ? origin_[i] + static_cast<uint32_t>(channel_) : 0;
        device::CopyAsync<16>(to + i * S::kRowsAtOnce * S::kStepBytes, x + from, exists ? 16 : 0);
      }
      channel_ += S::kStepBytes;
    } else {
      const auto code = static_cast<uint32_t>(static_cast<uint8_t>(conv.x_zero)) * 0x01010101u;
      const int below = kernel_row_ * conv.dilation_h, right = kernel_column_ * conv.dilation_w;
      const uint32_t offset =
          (static_cast<uint32_t>(below) * static_cast<uint32_t>(conv.in_w) + static_cast<uint32_t>(right)) *
              static_cast<uint32_t>(conv.channels) +
          static_cast<uint32_t>(channel_);
      const bool exists = kernel_row_ < conv.kernel_h;
#pragma unroll
      for (int i = 0; i < kPixelRows; ++i) {
        uint8_t* const place = to + i * S::kRowsAtOnce * S::kStepBytes;
        const bool inside = exists && static_cast<uint32_t>(row_[i] + below) < static_cast<uint32_t>(conv.in_h) &&
                            static_cast<uint32_t>(column_[i] + right) < static_cast<uint32_t>(conv.in_w);
        if (inside) {
          device::CopyAsync<16>(place, x + (origin_[i] + offset));
        } else {
          *reinterpret_cast<Piece*>(place) = {{code, code, code, code}};
        }
      }
      channel_ += S::kStepBytes;
      Settle();
    }
  }

 private:
  static constexpr int kPixelRows = S::kPixels / S::kRowsAtOnce, kWeightRows = S::kChannels / S::kRowsAtOnce;

  __device__ __forceinline__ void Settle() {
    while (channel_ >= p_.conv.channels && kernel_row_ < p_.conv.kernel_h) {
      channel_ -= p_.conv.channels;
      if (++kernel_column_ == p_.conv.kernel_w) kernel_column_ = 0, ++kernel_row_;
    }
  }

  const Arguments& p_;
  int inner_, place_;
  uint32_t weight_[kWeightRows], origin_[kPixelRows];
  int row_[kPixelRows], column_[kPixelRows];  // of the window's first element in the image
  int weight_k_, channel_, kernel_row_ = 0, kernel_column_ = 0;
};

}  // namespace cudaep::kernels::quantized
