// The stem's kernel, with products of single warps or of a warpgroup (stem_rows.cuh, stem_warpgroup.cu).
//
// A type of products says
//   kChannels, kPacks   the channels that warps multiply for at once, and how many packs of these a lane has
//   kTogether        whether all warps of a block multiply at the same time, for the same channels
//   kSharedBytes     of weights, in front of the image
//   its constructor  brings weights, before the kernel waits for its predecessor where they are constant
//   SeeCopies        makes the thread's copies known to products, before a barrier of the block
//   Add, Sum         a row's sums of the pixels 2 g and 2 g + 1 of each lane, and one of them
#pragma once

#include "kernels/conv/stem_finish.cuh"

namespace cudaep::kernels::stem {

// Blocks of a multiprocessor: weights are 88 of 168 registers, or the image's words 44. Four are no faster.
inline constexpr int kBlocksTogether = 3;

// Columns of the result that a warp has, and how far apart the first ones are in the convolution. Neighbours of pooling
// warps both compute the column between them.
constexpr int ResultColumns(bool pools) { return pools ? (kTileColumns - kStemPool + 2) / 2 : kTileColumns; }
constexpr int TileStep(bool pools) { return pools ? 2 * ResultColumns(true) : kTileColumns; }
constexpr int ConvRows(bool pools, int rows) { return pools ? 2 * (rows - 1) + kStemPool : rows; }

// Maxima of windows over the rows of a warp's columns, as they come: of one pack of channels.
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

template <class Products, class Finish, bool kPools>
__global__ void __launch_bounds__(kThreads, kBlocksTogether) StemKernel(__grid_constant__ const Arguments p) {
  constexpr int kColumns = ResultColumns(kPools), kPacks = Products::kPacks;
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
  const int channel_warps = Products::kTogether ? 1 : p.channel_warps;
  const int column_warps = kWarps / channel_warps, column_warp = warp / channel_warps;
  const int group = static_cast<int>(channel_block) * channel_warps + warp % channel_warps;
  const int channel = group * Products::kChannels + t * kPacks * kStemPack;
  const int y_h = kPools ? conv.pooled_h : conv.out_h, y_w = kPools ? conv.pooled_w : conv.out_w;
  const int block_column = static_cast<int>(column_block) * column_warps * kColumns;
  const int warp_column = block_column + column_warp * kColumns;
  const bool is_active = group * Products::kChannels < conv.out_channels && warp_column < y_w;

  auto* const shared = device::DynamicShared<unsigned char>();
  Products products(p, group, is_active, shared);
  device::GridDependencyWait();

  // The block's part of the result, of the convolution, and of the image.
  auto* const tile = reinterpret_cast<uint32_t*>(shared + Products::kSharedBytes);
  const int first = static_cast<int>(row_block) * p.rows_of_block, rows = device::Min(p.rows_of_block, y_h - first);
  const int conv_row = kPools ? 2 * first - conv.pool_top : first;
  const int conv_column = kPools ? 2 * block_column - conv.pool_left : block_column;
  const int word = conv_column - (conv.pad_left + conv.first_column()) / 2;
  const int aligned_word = word & -kPackedWords;
  LoadImage<typename Finish::Image>(
      tile, p, image, conv_row * conv.stride_h - conv.pad_top, aligned_word, ImageRows(conv, ConvRows(kPools, rows)),
      word - aligned_word + (column_warps - 1) * TileStep(kPools) + kTileColumns + kWordsOfWindow - 1);
  device::CommitCopies();
  const bool has_channel = channel < conv.out_channels;  // and so all packs: a lane of several has whole groups
  Finish finish[kPacks];
#pragma unroll
  for (int pack = 0; pack < kPacks; ++pack) finish[pack].Load(p, channel + pack * kStemPack, has_channel);
  device::WaitForCopies<0>();
  products.SeeCopies();
  __syncthreads();
  if (!Products::kTogether && !is_active) return;

  const uint32_t* from = tile + (word - aligned_word) + column_warp * TileStep(kPools) + 2 * g + t;
  const int row_words = conv.stride_h * conv.channels * kPitch;
  const int column = warp_column + (kPools ? g : 2 * g);
  Element* to = static_cast<Element*>(p.at.y) + ((image * y_h + first) * y_w + column) * conv.out_channels + channel;
  const int64_t row_elems = int64_t{y_w} * conv.out_channels;
  Result now[kPacks][2];
  const auto make = [&] {
    products.Add(conv, from, finish);
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
#pragma unroll
      for (int second = 0; second < 2; ++second) {
        float sum[kStemPack];
#pragma unroll
        for (int i = 0; i < kStemPack; ++i) sum[i] = products.Sum(second, pack, i);
        now[pack][second] = finish[pack].Finish(p, sum);
      }
    }
  };
  if constexpr (!kPools) {
    for (int row = 0; row < rows; ++row, from += row_words, to += row_elems) {
      make();
#pragma unroll
      for (int second = 0; second < 2; ++second) {
        if (column + second >= y_w || !has_channel) continue;
#pragma unroll
        for (int pack = 0; pack < kPacks; ++pack) {
          Finish::StoreResult(p, to + second * conv.out_channels + pack * kStemPack, now[pack][second]);
        }
      }
    }
  } else {
    const int pixel = conv_column + column_warp * TileStep(true) + 2 * g;
    const bool has_result = g < kColumns && column < y_w && has_channel;
    const bool all_inside = __all_sync(device::kFullWarp, pixel >= 0 && pixel + 1 < conv.out_w) != 0;
    Pool<Finish> pool[kPacks];
    for (int i = 0; i < ConvRows(true, rows); ++i, from += row_words) {
      const bool has_row = conv_row + i >= 0 && conv_row + i < conv.out_h;
      if (has_row) make();
#pragma unroll
      for (int pack = 0; pack < kPacks; ++pack) {
        if (!has_row || !all_inside) {
#pragma unroll
          for (int second = 0; second < 2; ++second) {
            const bool has = has_row && pixel + second >= 0 && pixel + second < conv.out_w;
            if (!has) now[pack][second] = Pool<Finish>::Nothing(p);
          }
        }
        if (i > 0) pool[pack].Add(now[pack]);
        if (i > 0 && i % 2 == 0) {
          const Result result = pool[pack].Across();
          if (has_result) Finish::StoreResult(p, to + pack * kStemPack, result);
        }
        if (i % 2 == 0) pool[pack].Start(now[pack]);  // the last row of a window is the first of the next
      }
      if (i > 0 && i % 2 == 0) to += row_elems;
    }
  }
}

// By products of type ProductsOf<T, steps, whether the image's numbers are finite>.
template <template <class, int, bool> class ProductsOf, class T, int kSteps>
Status LaunchSteps(const Arguments& p, const device::LaunchConfig& config, device::Stream stream) {
  using Any = ProductsOf<T, kSteps, false>;
  auto* kernel = StemKernel<Any, Numbers<T, false>, false>;
  if (IsClip(p.conv.activation)) kernel = StemKernel<Any, Numbers<T, true>, false>;
  if (p.conv.pools) kernel = StemKernel<Any, Numbers<T, true>, true>;
  if constexpr (std::is_same_v<T, Half>) {
    using Finite = ProductsOf<T, kSteps, true>;
    if (p.conv.of_codes) kernel = p.conv.pools ? StemKernel<Finite, Codes, true> : StemKernel<Finite, Codes, false>;
  }
  device::LaunchConfig with_weights = config;
  with_weights.shared_bytes += Any::kSharedBytes;
  return device::Launch(kernel, with_weights, stream, p);
}

template <template <class, int, bool> class ProductsOf, class T>
Status LaunchType(const Arguments& p, const device::LaunchConfig& config, device::Stream stream) {
  switch (StemStepsFor(p.conv.window_rows())) {
    case kStemSteps[0]:
      return LaunchSteps<ProductsOf, T, kStemSteps[0]>(p, config, stream);
    case kStemSteps[1]:
      return LaunchSteps<ProductsOf, T, kStemSteps[1]>(p, config, stream);
    default:
      return LaunchSteps<ProductsOf, T, kStemSteps[2]>(p, config, stream);
  }
}

template <template <class, int, bool> class ProductsOf>
Status LaunchProducts(const Arguments& p, const device::LaunchConfig& config, device::Stream stream) {
  return p.conv.type == DataType::kFloat16 ? LaunchType<ProductsOf, Half>(p, config, stream)
                                           : LaunchType<ProductsOf, BFloat16>(p, config, stream);
}

// stem_warpgroup.cu, where the convolution is by_warpgroup.
Status LaunchWarpgroup(const Arguments& p, const device::LaunchConfig& config, device::Stream stream);

}  // namespace cudaep::kernels::stem
