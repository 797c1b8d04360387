#include <algorithm>
#include <limits>

#include "core/checked_math.h"
#include "kernels/conv/stem_conv.h"
#include "kernels/conv/stem_finish.cuh"
#include "kernels/index_limit.h"

namespace cudaep::kernels {
namespace {

using stem::Arguments, stem::kThreads, stem::kTileColumns, stem::kWarps, stem::Result;

constexpr int kBlocksTogether = 3;  // of a multiprocessor: 88 of 168 registers hold weights
constexpr int kMostSharedBytes = 48 << 10;
constexpr int kWaves = 4;  // of blocks, where there is that much work: the last one is rarely full

// Columns of the result that a warp has, and how far apart the first ones are in the convolution. Neighbours of pooling
// warps both compute the column between them.
constexpr int ResultColumns(bool pools) { return pools ? (kTileColumns - kStemPool + 2) / 2 : kTileColumns; }
constexpr int TileStep(bool pools) { return pools ? 2 * ResultColumns(true) : kTileColumns; }
constexpr int ConvRows(bool pools, int rows) { return pools ? 2 * (rows - 1) + kStemPool : rows; }

// Maxima of windows over the rows of a warp's columns, as they come.
template <class Finish>
struct Pool {
  Result max[2];  // of the window's rows so far

  static __device__ __forceinline__ Result Join(const Result& a, const Result& b) {
    Result larger;
#pragma unroll
    for (int n = 0; n < Result::kWords; ++n) larger.word[n] = Finish::Largest(a.word[n], b.word[n]);
    return larger;
  }
  static __device__ __forceinline__ Result Nothing(const Arguments& p) {
    Result nothing;
#pragma unroll
    for (uint32_t& word : nothing.word) word = Finish::Nothing(p);
    return nothing;
  }
  __device__ __forceinline__ void Start(const Result (&row)[2]) { max[0] = row[0], max[1] = row[1]; }
  __device__ __forceinline__ void Add(const Result (&row)[2]) {
    max[0] = Join(max[0], row[0]), max[1] = Join(max[1], row[1]);
  }
  // Of the lane's two pixels and the first one of its right neighbour, which the last lanes lack.
  __device__ __forceinline__ Result Across() const {
    Result right;
#pragma unroll
    for (int n = 0; n < Result::kWords; ++n) right.word[n] = __shfl_down_sync(device::kFullWarp, max[0].word[n], 4);
    return Join(Join(max[0], max[1]), right);
  }
};

template <class T, int kSteps, class Finish, bool kPools>
__global__ void __launch_bounds__(kThreads, kBlocksTogether) StemKernel(__grid_constant__ const Arguments p) {
  constexpr int kColumns = ResultColumns(kPools);
  using Rows = stem::Rows<T, kSteps, Finish::kFinite>;
  using Element = typename Finish::Element;
  const StemConv& conv = p.conv;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int g = lane / 4, t = lane % 4;
  uint32_t channel_block, column_block, row_block;
  const int64_t image =
      p.first_image + p.row_blocks.DivideWithRemainder(
                          p.column_blocks.DivideWithRemainder(
                              p.channel_blocks.DivideWithRemainder(blockIdx.x, &channel_block), &column_block),
                          &row_block);
  const int column_warps = kWarps / p.channel_warps, column_warp = warp / p.channel_warps;
  const int group = static_cast<int>(channel_block) * p.channel_warps + warp % p.channel_warps;
  const int channel = group * kStemGroup + t * kStemPack;
  const int y_h = kPools ? conv.pooled_h : conv.out_h, y_w = kPools ? conv.pooled_w : conv.out_w;
  const int block_column = static_cast<int>(column_block) * column_warps * kColumns;
  const int warp_column = block_column + column_warp * kColumns;
  const bool is_active = group * kStemGroup < conv.out_channels && warp_column < y_w;

  Rows rows_of_warp;
  if (is_active) rows_of_warp.LoadWeights(conv, p.at.packed, group, lane);
  device::GridDependencyWait();

  // The block's part of the result, of the convolution, and of the image.
  uint32_t* const tile = device::DynamicShared<uint32_t>();
  const int first = static_cast<int>(row_block) * p.rows_of_block, rows = device::Min(p.rows_of_block, y_h - first);
  const int conv_row = kPools ? 2 * first - conv.pool_top : first;
  const int conv_column = kPools ? 2 * block_column - conv.pool_left : block_column;
  const int word = conv_column - (conv.pad_left + conv.first_column()) / 2;
  const int aligned_word = word & -stem::kPackedWords;
  stem::LoadImage<typename Finish::Image>(
      tile, p, image, conv_row * conv.stride_h - conv.pad_top, aligned_word,
      stem::ImageRows(conv, ConvRows(kPools, rows)),
      word - aligned_word + (column_warps - 1) * TileStep(kPools) + kTileColumns + stem::kWordsOfWindow - 1);
  device::CommitCopies();
  const bool has_channel = channel < conv.out_channels;
  Finish finish;
  finish.Load(p, channel, has_channel);
  device::WaitForCopies<0>();
  __syncthreads();
  if (!is_active) return;

  const uint32_t* from = tile + (word - aligned_word) + column_warp * TileStep(kPools) + 2 * g + t;
  const int row_words = conv.stride_h * conv.channels * stem::kPitch;
  const int column = warp_column + (kPools ? g : 2 * g);
  Element* to = static_cast<Element*>(p.at.y) + ((image * y_h + first) * y_w + column) * conv.out_channels + channel;
  const int64_t row_elems = int64_t{y_w} * conv.out_channels;
  Result now[2];
  const auto make = [&] {
    typename Rows::Sums sums;
#pragma unroll
    for (int i = 0; i < kStemPack; ++i) sums[i / 2].value[i % 2] = sums[i / 2].value[2 + i % 2] = finish.Start(i);
    rows_of_warp.Add(conv, from, sums);
#pragma unroll
    for (int second = 0; second < 2; ++second) {
      float sum[kStemPack];
#pragma unroll
      for (int i = 0; i < kStemPack; ++i) sum[i] = sums[i / 2].value[2 * second + i % 2];
      now[second] = finish.Finish(p, sum);
    }
  };
  if constexpr (!kPools) {
    for (int row = 0; row < rows; ++row, from += row_words, to += row_elems) {
      make();
#pragma unroll
      for (int second = 0; second < 2; ++second) {
        if (column + second < y_w && has_channel) Finish::StoreResult(p, to + second * conv.out_channels, now[second]);
      }
    }
  } else {
    const int pixel = conv_column + column_warp * TileStep(true) + 2 * g;
    const bool has_result = g < kColumns && column < y_w && has_channel;
    Pool<Finish> pool;
    for (int i = 0; i < ConvRows(true, rows); ++i, from += row_words) {
      const bool has_row = conv_row + i >= 0 && conv_row + i < conv.out_h;
      if (has_row) make();
#pragma unroll
      for (int second = 0; second < 2; ++second) {
        const bool has = has_row && pixel + second >= 0 && pixel + second < conv.out_w;
        if (!has) now[second] = Pool<Finish>::Nothing(p);
      }
      if (i > 0) pool.Add(now);
      if (i % 2 != 0) continue;
      if (i > 0) {  // the last row of a window is the first of the next
        const Result result = pool.Across();
        if (has_result) Finish::StoreResult(p, to, result);
        to += row_elems;
      }
      pool.Start(now);
    }
  }
}

template <class T, int kSteps>
Status LaunchSteps(const Arguments& p, const device::LaunchConfig& config, device::Stream stream) {
  using stem::Codes, stem::Numbers;
  auto* kernel = StemKernel<T, kSteps, Numbers<T, false>, false>;
  if (IsClip(p.conv.activation)) kernel = StemKernel<T, kSteps, Numbers<T, true>, false>;
  if (p.conv.pools) kernel = StemKernel<T, kSteps, Numbers<T, true>, true>;
  if constexpr (std::is_same_v<T, Half>) {
    if (p.conv.of_codes) {
      kernel = p.conv.pools ? StemKernel<T, kSteps, Codes, true> : StemKernel<T, kSteps, Codes, false>;
    }
  }
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
          CeilDiv<int64_t>(conv.y_w(), kWarps / channel_warps * ResultColumns(conv.pools))};
}

// The last step may read rows of the window that are none.
int SharedBytes(const StemConv& conv, int rows) {
  const int beyond = 2 * StemStepsFor(conv.window_rows()) - conv.window_rows();
  const int image_rows = stem::ImageRows(conv, ConvRows(conv.pools, rows));
  return (image_rows * conv.channels + beyond) * stem::kPitch * static_cast<int>(sizeof(uint32_t));
}

// None and ReLU as bounds.
ActivationParameters BoundsOf(const StemConv& conv) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (conv.activation == Activation::kNone) return {-kInfinity, kInfinity};
  return conv.activation == Activation::kRelu ? ActivationParameters{0.0f, kInfinity} : conv.parameters;
}

}  // namespace

int StemRowsOfBlock(const StemConv& conv, int multiprocessors) {
  const Blocks blocks = BlocksOf(conv);
  int most = 1;
  while (most < conv.y_h() && SharedBytes(conv, most + 1) <= kMostSharedBytes) ++most;
  const int64_t rows = conv.batch * conv.y_h() * blocks.columns * blocks.channels;
  const int64_t wanted = rows / (int64_t{kWaves} * kBlocksTogether * multiprocessors);
  const int64_t row_blocks = CeilDiv<int64_t>(conv.y_h(), std::clamp<int64_t>(wanted, 1, most));
  return static_cast<int>(CeilDiv<int64_t>(conv.y_h(), row_blocks));
}

Status LaunchStemConv(const StemConv& conv, int rows_of_block, bool constant_weights, const StemPointers& at,
                      device::Stream stream) {
  const Blocks blocks = BlocksOf(conv);
  const int64_t row_blocks = CeilDiv(conv.y_h(), rows_of_block);
  const int64_t image_blocks = row_blocks * blocks.columns * blocks.channels;
  const size_t pack_bytes = conv.of_codes ? kPackBytes / 2 : kPackBytes;
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
              .y = quantized::QuantizerOf(conv.y, conv.bounds, true),
              .y_inverse = 1 / conv.y.scale,
              .x_in_packs = IsAligned(at.x, pack_bytes) && conv.in_w % kStemPack == 0,
              .y_in_packs = IsAligned(at.y, pack_bytes)};
  p.conv.parameters = BoundsOf(conv);
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
