// The block of the stem's kernel: its part of the image in shared memory, and a row of results from it.
#pragma once

#include "core/data_type_traits.h"
#include "device/async_copy.h"
#include "device/tensor_core.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/conv/stem_steps.h"
#include "kernels/epilogue/activate.cuh"
#include "kernels/fast_divide.h"

namespace cudaep::kernels::stem {

inline constexpr int kWarps = 4, kThreads = kWarps * 32;
inline constexpr int kTiles = kStemGroup / 8;
inline constexpr int kTileColumns = 16;  // of the convolution, a warp
inline constexpr int kWordsOfWindow = kStemColumns / 2;
inline constexpr int kPackedWords = kPackBytes / 4;
// Words of a row of the image in shared memory: those of all warps' columns, from an aligned one on.
inline constexpr int kPitch = kWarps * kTileColumns + 8;

struct Arguments {
  StemConv conv;
  StemPointers at;
  FastDivider row_blocks, column_blocks, channel_blocks, channels;
  int64_t first_image;
  int rows_of_block, channel_warps;
  bool x_in_packs, y_in_packs;
};

// Of the image, that `rows` of the convolution need.
constexpr int ImageRows(const StemConv& conv, int rows) { return (rows - 1) * conv.stride_h + conv.kernel_h; }

// What of the image the block's windows reach, from word `first_word` of row `first_row` on; zeros beside the image.
// The channels of a row follow each other, so that all rows of a window do.
template <class T>
__device__ __forceinline__ void LoadImage(uint32_t* tile, const Arguments& p, int64_t image, int first_row,
                                          int first_word, int rows, int words) {
  constexpr int kLanes = 16;  // of a row
  const StemConv& conv = p.conv;
  const T* const x = static_cast<const T*>(p.at.x) + image * conv.channels * conv.in_h * conv.in_w;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (int row = static_cast<int>(threadIdx.x) / kLanes; row < rows * conv.channels; row += kThreads / kLanes) {
    uint32_t channel;
    const int h = first_row + static_cast<int>(p.channels.DivideWithRemainder(static_cast<uint32_t>(row), &channel));
    const bool has_row = h >= 0 && h < conv.in_h;
    const T* const from = x + (int64_t{channel} * conv.in_h + (has_row ? h : 0)) * conv.in_w;
    const auto has = [&](int w) { return has_row && w >= 0 && w < conv.in_w; };
    uint32_t* const to = tile + row * kPitch;
    if (p.x_in_packs) {
      for (int word = lane * kPackedWords; word < words; word += kLanes * kPackedWords) {
        const int w = 2 * (first_word + word);
        device::CopyAsync<kPackBytes>(to + word, has(w) ? from + w : from, has(w) ? kPackBytes : 0);
      }
    } else {
      for (int word = lane; word < words; word += kLanes) {
        const int w = 2 * (first_word + word);
        const uint32_t low = has(w) ? from[w].bits : 0u, high = has(w + 1) ? from[w + 1].bits : 0u;
        to[word] = low | high << 16;
      }
    }
  }
}

// What a warp knows of its channels, and how it makes rows of the pixels 2 g and 2 g + 1 of each lane.
template <class T, int kSteps, bool kClips>
struct Rows {
  using Result = RawPack<T, kStemPack>;
  static constexpr int kFewestRows = FewestStemRows(kSteps);

  device::FragmentB<T> weights[kSteps][kTiles];
  float bias[kStemPack];
  uint32_t mask;

  // Before GridDependencyWait, where weights are constant.
  __device__ __forceinline__ void LoadWeights(const StemConv& conv, const void* packed, int group, int lane) {
    const T* const from = static_cast<const T*>(packed) + (int64_t{group} * kSteps * 64 + lane) * kStemPack;
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
      const RawPack<T, kStemPack> raw = LoadRaw<kStemPack>(from + i * 32 * kStemPack);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) weights[i / 2][n].word[i % 2] = raw.word[n];
    }
    // Columns without weights have no part in the sums, be they infinite.
    const int column = lane % 4 * 2 - conv.first_column();
    mask = (column >= 0 && column < conv.kernel_w ? 0xffffu : 0u) | (column + 1 < conv.kernel_w ? 0xffff0000u : 0u);
  }
  __device__ __forceinline__ void LoadBias(const T* from) {
#pragma unroll
    for (int i = 0; i < kStemPack; ++i) bias[i] = from == nullptr ? 0.0f : ToFloat(from[i]);
  }

  // `from`: the word of the lane's first pixel and column, in the window's first row.
  __device__ __forceinline__ void Make(const StemConv& conv, const uint32_t* from, Result (&results)[2]) const {
    const int window_rows = conv.window_rows();
    device::FragmentD<float> sums[kTiles];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[n].value[i] = bias[2 * n + i % 2];
    }
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      device::FragmentA<T> a;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = 2 * k + half;
        const uint32_t used = row < kFewestRows || row < window_rows ? mask : 0;
        a.word[2 * half] = from[row * kPitch] & used;
        a.word[2 * half + 1] = from[row * kPitch + 1] & used;
      }
#pragma unroll
      for (int n = 0; n < kTiles; ++n) device::Mma(sums[n], a, weights[k][n]);
    }
#pragma unroll
    for (int second = 0; second < 2; ++second) {
      float result[kStemPack];
#pragma unroll
      for (int i = 0; i < kStemPack; ++i) result[i] = Finish(conv, sums[i / 2].value[2 * second + i % 2]);
      results[second] = PackCompute<T, kStemPack>(result);
    }
  }

 private:
  static __device__ __forceinline__ float Finish(const StemConv& conv, float sum) {
    if constexpr (kClips) {
      const float least = conv.parameters.a, most = conv.parameters.b;
      return sum < least ? least : (sum > most ? most : sum);
    } else {
      return ActivateApproximately(conv.activation, conv.parameters, sum);
    }
  }
};

template <class T>
__device__ __forceinline__ void StoreResult(const Arguments& p, T* to, const RawPack<T, kStemPack>& result) {
  if (p.y_in_packs) return StoreWords<kStemPack>(to, result);
  const Pack<T, kStemPack> elements = Unpack<T, kStemPack>(result);
#pragma unroll
  for (int i = 0; i < kStemPack; ++i) to[i] = elements.value[i];
}

}  // namespace cudaep::kernels::stem
