#include <algorithm>
#include <limits>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/async_copy.h"
#include "device/tensor_core.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/conv/stem_conv.h"
#include "kernels/conv/stem_steps.h"
#include "kernels/epilogue/activate.cuh"
#include "kernels/fast_divide.h"
#include "kernels/index_limit.h"

namespace cudaep::kernels {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * 32;
constexpr int kBlocksTogether = 3;  // of a multiprocessor: 88 of 168 registers hold weights
constexpr int kTiles = kStemGroup / 8;
constexpr int kTileColumns = 16;
constexpr int kWordsOfWindow = kStemColumns / 2;
// Words of a row of the image in shared memory: those of all warps' columns, from an aligned one on.
constexpr int kPitch = kWarps * kTileColumns + 8;
constexpr int kPackedWords = kPackBytes / 4;
constexpr int kMostSharedBytes = 48 << 10;
constexpr int kWaves = 4;  // of blocks, where there is that much work: the last one is rarely full

struct Arguments {
  StemConv conv;
  StemPointers at;
  FastDivider row_blocks, column_blocks, channel_blocks, channels;
  int64_t first_image;
  int rows_of_block, channel_warps;
  bool x_in_packs, y_in_packs;
};

constexpr int TileRows(const StemConv& conv, int rows) { return (rows - 1) * conv.stride_h + conv.kernel_h; }

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

// kClips: the activation is none or a bound on either side.
template <bool kClips>
__device__ __forceinline__ float Finish(const StemConv& conv, float sum) {
  if constexpr (kClips) {
    const float least = conv.parameters.a, most = conv.parameters.b;
    return sum < least ? least : (sum > most ? most : sum);
  } else {
    return ActivateApproximately(conv.activation, conv.parameters, sum);
  }
}

// A lane has the pixels 2 g and 2 g + 1 of its warp's tile, and of each 8 neighbouring channels.
template <class T, int kSteps, bool kClips>
__global__ void __launch_bounds__(kThreads, kBlocksTogether) StemKernel(__grid_constant__ const Arguments p) {
  constexpr int kFewestRows = FewestStemRows(kSteps);
  const StemConv& conv = p.conv;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int g = lane / 4, t = lane % 4;
  uint32_t channel_block, column_block, row_block;
  const int64_t image =
      p.first_image + p.row_blocks.DivideWithRemainder(
                          p.column_blocks.DivideWithRemainder(
                              p.channel_blocks.DivideWithRemainder(blockIdx.x, &channel_block), &column_block),
                          &row_block);
  const int column_warps = kWarps / p.channel_warps;
  const int group = static_cast<int>(channel_block) * p.channel_warps + warp % p.channel_warps;
  const int column_of_block = warp / p.channel_warps * kTileColumns;
  const int first_column = static_cast<int>(column_block) * column_warps * kTileColumns;
  const int channel = group * kStemGroup + t * kStemPack;
  const bool is_active = group * kStemGroup < conv.out_channels;

  device::FragmentB<T> weights[kSteps][kTiles] = {};
  if (is_active) {
    const T* const packed = static_cast<const T*>(p.at.packed) + (int64_t{group} * kSteps * 64 + lane) * kStemPack;
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
      const RawPack<T, kStemPack> raw = LoadRaw<kStemPack>(packed + i * 32 * kStemPack);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) weights[i / 2][n].word[i % 2] = raw.word[n];
    }
  }
  device::GridDependencyWait();

  uint32_t* const tile = device::DynamicShared<uint32_t>();
  const int first_row = static_cast<int>(row_block) * p.rows_of_block;
  const int rows = device::Min(p.rows_of_block, conv.out_h - first_row);
  const int word = first_column - (conv.pad_left + conv.first_column()) / 2;
  const int aligned_word = word & -kPackedWords;
  LoadImage<T>(tile, p, image, first_row * conv.stride_h - conv.pad_top, aligned_word, TileRows(conv, rows),
               word - aligned_word + column_warps * kTileColumns + kWordsOfWindow - 1);
  device::CommitCopies();
  float bias[kStemPack] = {};
  if (p.at.bias != nullptr && channel < conv.out_channels) {
#pragma unroll
    for (int i = 0; i < kStemPack; ++i) bias[i] = ToFloat(static_cast<const T*>(p.at.bias)[channel + i]);
  }
  device::WaitForCopies<0>();
  __syncthreads();
  if (!is_active) return;

  // Columns without weights have no part in the sums, be they infinite.
  const int column = 2 * t - conv.first_column();
  const uint32_t mask =
      (column >= 0 && column < conv.kernel_w ? 0xffffu : 0u) | (column + 1 < conv.kernel_w ? 0xffff0000u : 0u);
  const int window_rows = conv.window_rows();
  const uint32_t* from = tile + (word - aligned_word) + column_of_block + 2 * g + t;
  const int pixel = first_column + column_of_block + 2 * g;
  T* to =
      static_cast<T*>(p.at.y) + ((image * conv.out_h + first_row) * conv.out_w + pixel) * conv.out_channels + channel;
  for (int row = 0; row < rows; ++row) {
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
        const int window_row = 2 * k + half;
        const uint32_t used = window_row < kFewestRows || window_row < window_rows ? mask : 0;
        a.word[2 * half] = from[window_row * kPitch] & used;
        a.word[2 * half + 1] = from[window_row * kPitch + 1] & used;
      }
#pragma unroll
      for (int n = 0; n < kTiles; ++n) device::Mma(sums[n], a, weights[k][n]);
    }
#pragma unroll
    for (int second = 0; second < 2; ++second) {
      float result[kStemPack];
#pragma unroll
      for (int i = 0; i < kStemPack; ++i) {
        result[i] = Finish<kClips>(conv, sums[i / 2].value[2 * second + i % 2]);
      }
      if (pixel + second >= conv.out_w || channel >= conv.out_channels) continue;
      const RawPack<T, kStemPack> packed = PackCompute<T, kStemPack>(result);
      T* const at = to + second * conv.out_channels;
      if (p.y_in_packs) {
        StoreWords<kStemPack>(at, packed);
      } else {
        const Pack<T, kStemPack> elements = Unpack<T, kStemPack>(packed);
#pragma unroll
        for (int i = 0; i < kStemPack; ++i) at[i] = elements.value[i];
      }
    }
    from += conv.stride_h * conv.channels * kPitch;
    to += int64_t{conv.out_w} * conv.out_channels;
  }
}

// Of none and ReLU, as bounds.
bool AsClip(StemConv* conv) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (conv->activation == Activation::kNone) conv->parameters = {-kInfinity, kInfinity};
  if (conv->activation == Activation::kRelu) conv->parameters = {0.0f, kInfinity};
  return conv->activation == Activation::kNone || conv->activation == Activation::kRelu ||
         conv->activation == Activation::kClip;
}

template <class T, int kSteps>
Status LaunchSteps(Arguments p, const device::LaunchConfig& config, device::Stream stream) {
  auto* const kernel = AsClip(&p.conv) ? StemKernel<T, kSteps, true> : StemKernel<T, kSteps, false>;
  return device::Launch(kernel, config, stream, p);
}

template <class T>
Status LaunchType(const Arguments& p, const device::LaunchConfig& config, device::Stream stream) {
  switch (StemStepsFor(p.conv.window_rows())) {
    case kStemSteps[0]:
      return LaunchSteps<T, kStemSteps[0]>(p, config, stream);
    case kStemSteps[1]:
      return LaunchSteps<T, kStemSteps[1]>(p, config, stream);
    default:
      return LaunchSteps<T, kStemSteps[2]>(p, config, stream);
  }
}

struct Blocks {
  int channel_warps;
  int64_t channels, columns;
};
Blocks BlocksOf(const StemConv& conv) {
  const int64_t groups = CeilDiv<int64_t>(conv.out_channels, kStemGroup);
  const int channel_warps = groups == 1 ? 1 : 2;
  return {channel_warps, CeilDiv<int64_t>(groups, channel_warps),
          CeilDiv<int64_t>(conv.out_w, kWarps / channel_warps * kTileColumns)};
}

// The last step may read rows of the window that are none.
int SharedBytes(const StemConv& conv, int rows) {
  const int beyond = 2 * StemStepsFor(conv.window_rows()) - conv.window_rows();
  return (TileRows(conv, rows) * conv.channels + beyond) * kPitch * static_cast<int>(sizeof(uint32_t));
}

}  // namespace

int StemRowsOfBlock(const StemConv& conv, int multiprocessors) {
  const Blocks blocks = BlocksOf(conv);
  const int64_t rows = conv.batch * conv.out_h * blocks.columns * blocks.channels;
  int most = 1;
  while (most < conv.out_h && SharedBytes(conv, most + 1) <= kMostSharedBytes) ++most;
  const int64_t wanted = rows / (int64_t{kWaves} * kBlocksTogether * multiprocessors);
  const int64_t row_blocks = CeilDiv<int64_t>(conv.out_h, std::clamp<int64_t>(wanted, 1, most));
  return static_cast<int>(CeilDiv<int64_t>(conv.out_h, row_blocks));
}

Status LaunchStemConv(const StemConv& conv, int rows_of_block, bool constant_weights, const StemPointers& at,
                      device::Stream stream) {
  const Blocks blocks = BlocksOf(conv);
  const int64_t row_blocks = CeilDiv(conv.out_h, rows_of_block);
  const int64_t image_blocks = row_blocks * blocks.columns * blocks.channels;
  const auto divider = [](int64_t value) { return FastDivider(static_cast<uint32_t>(value)); };
  Arguments p{.conv = conv,
              .at = at,
              .row_blocks = divider(row_blocks),
              .column_blocks = divider(blocks.columns),
              .channel_blocks = divider(blocks.channels),
              .channels = divider(conv.channels),
              .first_image = 0,
              .rows_of_block = rows_of_block,
              .channel_warps = blocks.channel_warps,
              .x_in_packs = IsAligned(at.x, kPackBytes) && conv.in_w % kStemPack == 0,
              .y_in_packs = IsAligned(at.y, kPackBytes)};
  device::LaunchConfig config;
  config.block.x = kThreads;
  config.shared_bytes = static_cast<size_t>(SharedBytes(conv, rows_of_block));
  config.programmatic = constant_weights;
  // As many whole images a launch as 31 bits number blocks of.
  const int64_t most = std::max<int64_t>(1, index_limit / image_blocks);
  for (; p.first_image < conv.batch; p.first_image += most) {
    config.grid.x = static_cast<unsigned>(std::min(conv.batch - p.first_image, most) * image_blocks);
    CUDAEP_RETURN_IF_ERROR(conv.type == DataType::kFloat16 ? LaunchType<Half>(p, config, stream)
                                                           : LaunchType<BFloat16>(p, config, stream));
  }
  return Status::Ok();
}

}  // namespace cudaep::kernels
