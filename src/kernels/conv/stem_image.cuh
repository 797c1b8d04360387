// The block of the stem's kernels, and its part of the image in shared memory.
#pragma once

#include <type_traits>

#include "core/data_type_traits.h"
#include "device/async_copy.h"
#include "device/tensor_core.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/conv/quantizer.cuh"
#include "kernels/conv/stem_steps.h"
#include "kernels/fast_divide.h"
#include "kernels/quant/code_pairs.cuh"

namespace cudaep::kernels::stem {

inline constexpr int kWarps = 4, kThreads = kWarps * 32;
inline constexpr int kTileColumns = 16;  // of the convolution, a warp
inline constexpr int kWordsOfWindow = kStemColumns / 2;
inline constexpr int kPackedWords = kPackBytes / 4;
// Words of a row of the image in shared memory: those of all warps' columns, from an aligned one on.
inline constexpr int kPitch = kWarps * kTileColumns + 8;

// Blocks of a multiprocessor, of products of single warps, of which 88 of 168 registers hold weights, and of
// warpgroups.
constexpr int BlocksTogether(bool by_warpgroup) { return by_warpgroup ? 4 : 3; }

struct Arguments {
  StemConv conv;
  StemPointers at;
  FastDivider row_blocks, column_blocks, channel_blocks, channels;
  int64_t first_image;
  int rows_of_block, channel_warps;
  quantized::Quantizer y;  // of codes
  bool x_in_packs, y_in_packs;
};

// Of the image, that `rows` of the convolution need.
constexpr int ImageRows(const StemConv& conv, int rows) { return (rows - 1) * conv.stride_h + conv.kernel_h; }

// Two neighbours of an image's row, the first one in the low half; zero stands for one that is not there.
template <class X>
__device__ __forceinline__ uint32_t WordOf(const StemConv& conv, const X* from, bool has_low, bool has_high) {
  if constexpr (std::is_same_v<X, int8_t>) {
    const uint32_t low = has_low ? static_cast<uint8_t>(from[0]) : 0u,
                   high = has_high ? static_cast<uint8_t>(from[1]) : 0u;
    return PairOfCodes(low | high << 8, 0, conv.x_zero) & ((has_low ? 0xffffu : 0u) | (has_high ? 0xffff0000u : 0u));
  } else {
    return (has_low ? from[0].bits : 0u) | (has_high ? from[1].bits : 0u) << 16;
  }
}

// Four words from as many pairs of neighbours, aligned to as much, which are there, or none of them is.
template <class X>
__device__ __forceinline__ void CopyWords(const StemConv& conv, uint32_t* to, const X* from, bool has) {
  if constexpr (std::is_same_v<X, int8_t>) {
    const auto codes = has ? LoadPack<2>(reinterpret_cast<const uint32_t*>(from)) : Pack<uint32_t, 2>{};
    Pack<uint32_t, kPackedWords> words{};
#pragma unroll
    for (int i = 0; i < kPackedWords; ++i) {
      if (has) words.value[i] = PairOfCodes(codes.value[i / 2], i % 2 * 2, conv.x_zero);
    }
    StorePack(to, words);
  } else {
    device::CopyAsync<kPackBytes>(to, from, has ? kPackBytes : 0);
  }
}

// What of the image, of X, the block's windows reach, from word `first_word` of row `first_row` on; zeros beside the
// image. The channels of a row follow each other, so that all rows of a window do.
template <class X>
__device__ __forceinline__ void LoadImage(uint32_t* tile, const Arguments& p, int64_t image, int first_row,
                                          int first_word, int rows, int words) {
  constexpr int kLanes = 16;  // of a row
  const StemConv& conv = p.conv;
  const X* const x = static_cast<const X*>(p.at.x) + image * conv.channels * conv.in_h * conv.in_w;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (int row = static_cast<int>(threadIdx.x) / kLanes; row < rows * conv.channels; row += kThreads / kLanes) {
    uint32_t channel;
    const int h = first_row + static_cast<int>(p.channels.DivideWithRemainder(static_cast<uint32_t>(row), &channel));
    const bool has_row = h >= 0 && h < conv.in_h;
    const X* const from = x + (int64_t{channel} * conv.in_h + (has_row ? h : 0)) * conv.in_w;
    const auto has = [&](int w) { return has_row && w >= 0 && w < conv.in_w; };
    uint32_t* const to = tile + row * kPitch;
    if (p.x_in_packs) {
      for (int word = lane * kPackedWords; word < words; word += kLanes * kPackedWords) {
        const int w = 2 * (first_word + word);
        CopyWords(conv, to + word, has(w) ? from + w : from, has(w));
      }
    } else {
      for (int word = lane; word < words; word += kLanes) {
        const int w = 2 * (first_word + word);
        to[word] = WordOf(conv, from + w, has(w), has(w + 1));
      }
    }
  }
}

// Columns without weights have no part in the sums, be they infinite.
template <bool kFinite>
__device__ __forceinline__ uint32_t WindowMask(const StemConv& conv) {
  if constexpr (kFinite) return ~0u;
  const int column = static_cast<int>(threadIdx.x) % 4 * 2 - conv.first_column();
  return (column >= 0 && column < conv.kernel_w ? 0xffffu : 0u) | (column + 1 < conv.kernel_w ? 0xffff0000u : 0u);
}

// What is multiplied by the weights of two of the window's rows. `from`: the word of the lane's first pixel and column,
// in the window's first row.
template <class T, int kSteps, bool kFinite>
__device__ __forceinline__ device::FragmentA<T> WindowRows(const StemConv& conv, const uint32_t* from, int step,
                                                           uint32_t mask) {
  constexpr int kFewestRows = FewestStemRows(kSteps);
  device::FragmentA<T> a;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = 2 * step + half;
    const bool is_there = row < kFewestRows || row < conv.window_rows();
    const uint32_t used = is_there ? (kFinite ? ~0u : mask) : 0u;
    a.word[2 * half] = from[row * kPitch] & used;
    a.word[2 * half + 1] = from[row * kPitch + 1] & used;
  }
  return a;
}

}  // namespace cudaep::kernels::stem
