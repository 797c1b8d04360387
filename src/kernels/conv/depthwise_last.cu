#include <algorithm>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/conv/depthwise.h"
#include "kernels/epilogue/activate.cuh"
#include "kernels/fast_divide.h"
#include "kernels/index_limit.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 2;  // on a multiprocessor, or nothing hides how long memory takes

struct DepthwiseLastArgs {
  DepthwiseConv conv;
  FastDivider tiles;    // of channels
  FastDivider columns;  // groups of output columns
  FastDivider rows;     // output rows of an image
  FastDivider taps;
  int64_t first_image;  // images of earlier launches
  uint32_t strips;
};

// Channels of a block, threads along them, and output strips of a block.
template <int kPack>
inline constexpr int kLanes = kPack == 1 ? 32 : 8;
template <int kPack>
inline constexpr int kStrips = kThreads / kLanes<kPack>;
template <int kTaps>
inline constexpr int kStripOutputs = kTaps == 0 ? 1 : 4;

// A thread has kPack channels of a strip: kStripOutputs neighbours in a row. kTaps: the window's width, without
// dilation and kStep apart, so that what a strip reads of an input row is loaded at once; 0 for any window, with strips
// of one.
template <class T, int kPack, int kTaps, int kStep>
__global__ void __launch_bounds__(kThreads, kBlocks)
    DepthwiseLastKernel(const T* x, const T* w, const T* bias, T* y, __grid_constant__ const DepthwiseLastArgs args) {
  constexpr int kOutputs = kStripOutputs<kTaps>, kTileChannels = kLanes<kPack> * kPack;
  __shared__ float weight[kMostDepthwiseLastTaps * kTileChannels];
  const DepthwiseConv& conv = args.conv;
  uint32_t tile;
  const uint32_t first_strip = args.tiles.DivideWithRemainder(blockIdx.x, &tile) * kStrips<kPack>;
  const int first_channel = static_cast<int>(tile) * kTileChannels;
  const int tile_channels = device::Min(conv.in_channels - first_channel, kTileChannels);
  device::GridDependencyWait();
  const int taps = conv.kernel_h * conv.kernel_w;
  for (uint32_t i = threadIdx.x; i < static_cast<uint32_t>(tile_channels * taps); i += kThreads) {
    uint32_t tap;
    const uint32_t channel = args.taps.DivideWithRemainder(i, &tap);
    weight[tap * kTileChannels + channel] = Load(w[static_cast<int64_t>(first_channel) * taps + i]);
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kLanes<kPack>, channel = lane * kPack;
  const uint32_t strip = first_strip + threadIdx.x / kLanes<kPack>;
  if (strip >= args.strips || channel >= tile_channels) return;
  uint32_t group, row;
  const int64_t image =
      args.first_image + args.rows.DivideWithRemainder(args.columns.DivideWithRemainder(strip, &group), &row);
  const int64_t channels = conv.in_channels;
  const int first = static_cast<int>(group) * kOutputs;
  const int top = static_cast<int>(row) * conv.stride_h - conv.pad_top, left = first * conv.stride_w - conv.pad_left;
  const T* const from = x + image * conv.in_h * conv.in_w * channels + first_channel + channel;
  float sum[kOutputs][kPack] = {};
  if (bias != nullptr) {
    float start[kPack];
    UnpackCompute<T, kPack>(LoadRaw<kPack>(bias + first_channel + channel), start);
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) sum[o][k] = start[k];
    }
  }
  const auto load = [&](int line, int column) {
    RawPack<T, kPack> raw{};
    if (column >= 0 && column < conv.in_w) {
      raw = LoadRaw<kPack>(from + (static_cast<int64_t>(line) * conv.in_w + column) * channels);
    }
    return raw;
  };
  // += the pack times its weights at a tap.
  const auto add = [&](const RawPack<T, kPack>& raw, int tap, float(&to)[kPack]) {
    float value[kPack];
    UnpackCompute<T, kPack>(raw, value);
#pragma unroll
    for (int k = 0; k < kPack; ++k) to[k] += weight[tap * kTileChannels + channel + k] * value[k];
  };
#pragma unroll 1
  for (int i = 0; i < conv.kernel_h; ++i) {
    const int line = top + i * conv.dilation_h;
    if (line < 0 || line >= conv.in_h) continue;
    if constexpr (kTaps != 0) {
      constexpr int kRead = (kOutputs - 1) * kStep + kTaps;
      RawPack<T, kPack> raw[kRead];
#pragma unroll
      for (int j = 0; j < kRead; ++j) raw[j] = load(line, left + j);
#pragma unroll
      for (int j = 0; j < kTaps; ++j) {
#pragma unroll
        for (int o = 0; o < kOutputs; ++o) add(raw[o * kStep + j], i * kTaps + j, sum[o]);
      }
    } else {
      for (int j = 0; j < conv.kernel_w; ++j) {
        add(load(line, left + j * conv.dilation_w), i * conv.kernel_w + j, sum[0]);
      }
    }
  }
  WithActivation<float>(conv.activation, conv.parameters, [&](auto function) {
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) sum[o][k] = function(sum[o][k]);
    }
  });
  T* const to = y + ((image * conv.out_h + row) * conv.out_w + first) * channels + first_channel + channel;
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    if (first + o < conv.out_w) StoreWords<kPack>(to + o * channels, PackCompute<T, kPack>(sum[o]));
  }
}

template <class T>
struct Variant {
  void (*kernel)(const T*, const T*, const T*, T*, DepthwiseLastArgs);
  int outputs, strips, tile_channels;
};

template <class T, int kPack, int kTaps, int kStep>
Variant<T> VariantOf() {
  return {DepthwiseLastKernel<T, kPack, kTaps, kStep>, kStripOutputs<kTaps>, kStrips<kPack>, kLanes<kPack> * kPack};
}

template <class T>
Variant<T> Choose(const DepthwiseConv& conv, bool packs) {
  constexpr int kPack = PackElems(sizeof(T));
  if (!packs) return VariantOf<T, 1, 0, 1>();
  const int step = conv.dilation_w == 1 ? conv.stride_w : 0, taps = conv.kernel_w;
  if (taps == 3 && step == 1) return VariantOf<T, kPack, 3, 1>();
  if (taps == 3 && step == 2) return VariantOf<T, kPack, 3, 2>();
  if (taps == 5 && step == 1) return VariantOf<T, kPack, 5, 1>();
  if (taps == 5 && step == 2) return VariantOf<T, kPack, 5, 2>();
  if (taps == 7 && step == 1) return VariantOf<T, kPack, 7, 1>();
  return VariantOf<T, kPack, 0, 1>();
}

template <class T>
Status LaunchAs(const DepthwiseConv& conv, const void* x, const void* w, const void* bias, void* y,
                device::Stream stream) {
  const bool aligned = IsAligned(x, kPackBytes) && IsAligned(y, kPackBytes) && IsAligned(bias, kPackBytes);
  const Variant<T> variant = Choose<T>(conv, aligned && conv.in_channels % PackElems(sizeof(T)) == 0);
  const int64_t columns = CeilDiv(conv.out_w, variant.outputs);
  const int64_t tiles = CeilDiv(conv.in_channels, variant.tile_channels);
  DepthwiseLastArgs args{};
  args.conv = conv;
  args.tiles = FastDivider(static_cast<uint32_t>(tiles));
  args.columns = FastDivider(static_cast<uint32_t>(columns));
  args.rows = FastDivider(static_cast<uint32_t>(conv.out_h));
  args.taps = FastDivider(static_cast<uint32_t>(conv.kernel_h * conv.kernel_w));
  // Numbers of strips and of blocks stay below 2^31: as many whole images a launch as fit.
  const int64_t image_strips = columns * conv.out_h;
  const int64_t most = std::max<int64_t>(1, (index_limit + 1 - kThreads) / (image_strips * tiles));
  for (int64_t image = 0; image < conv.batch; image += most) {
    args.first_image = image;
    args.strips = static_cast<uint32_t>(std::min(conv.batch - image, most) * image_strips);
    device::LaunchConfig config;
    config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(args.strips, variant.strips) * tiles);
    config.block.x = kThreads;
    config.programmatic = true;
    CUDAEP_RETURN_IF_ERROR(device::Launch(variant.kernel, config, stream, static_cast<const T*>(x),
                                          static_cast<const T*>(w), static_cast<const T*>(bias), static_cast<T*>(y),
                                          args));
  }
  return Status::Ok();
}

}  // namespace

Status LaunchDepthwiseConvLast(const DepthwiseConv& conv, const void* x, const void* w, const void* bias, void* y,
                               device::Stream stream) {
  const auto launch = VisitType<kDepthwiseTypes, decltype(&LaunchAs<float>)>(conv.type, nullptr,
                                                                             [&]<class T>() { return &LaunchAs<T>; });
  if (launch == nullptr || conv.multiplier != 1 || conv.kernel_h * conv.kernel_w > kMostDepthwiseLastTaps) {
    return NotSupported("channels-last depthwise convolution of ", DataTypeName(conv.type), ", ", conv.multiplier,
                        " outputs a channel and ", conv.kernel_h, 'x', conv.kernel_w, " taps");
  }
  return launch(conv, x, w, bias, y, stream);
}

}  // namespace cudaep::kernels
