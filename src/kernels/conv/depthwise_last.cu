#include <algorithm>

#include "core/checked_math.h"
#include "kernels/conv/depthwise_tile.cuh"
#include "kernels/index_limit.h"

namespace cudaep::kernels {
namespace {

template <int kPack_>
struct AnyWindow {
  static constexpr int kPack = kPack_, kLanes = kPack == 1 ? 32 : 8, kTileChannels = kLanes * kPack;
  static constexpr int kThreads = 256, kPlaces = kThreads / kLanes, kColumns = 1, kRows = 1;
};

// Any window: kPack channels of one output a thread.
template <class T, int kPack>
__global__ void __launch_bounds__(AnyWindow<kPack>::kThreads)
    DepthwiseLastKernel(const T* x, const T* w, const T* bias, T* y, __grid_constant__ const DepthwiseTileArgs args) {
  constexpr int kTileChannels = AnyWindow<kPack>::kTileChannels;
  __shared__ float weight[kMostDepthwiseLastTaps * kTileChannels];
  const DepthwiseConv& conv = args.conv;
  const DepthwisePlace place = LocateDepthwise<AnyWindow<kPack>>(args);
  device::GridDependencyWait();
  const int taps = conv.kernel_h * conv.kernel_w;
  const T* const tile_weights = w + static_cast<int64_t>(place.first_channel) * taps;
  for (int i = static_cast<int>(threadIdx.x); i < place.tile_channels * taps; i += AnyWindow<kPack>::kThreads) {
    weight[i % taps * kTileChannels + i / taps] = Load(tile_weights[i]);
  }
  __syncthreads();
  if (!place.active) return;
  const int64_t channels = conv.in_channels, channel = place.first_channel + place.channel;
  const T* const from = x + place.image * conv.in_h * conv.in_w * channels + channel;
  float sum[kPack] = {};
  if (bias != nullptr) UnpackCompute<T, kPack>(LoadRaw<kPack>(bias + channel), sum);
  for (int i = 0; i < conv.kernel_h; ++i) {
    const int line = place.row * conv.stride_h - conv.pad_top + i * conv.dilation_h;
    if (line < 0 || line >= conv.in_h) continue;
    for (int j = 0; j < conv.kernel_w; ++j) {
      const int column = place.column * conv.stride_w - conv.pad_left + j * conv.dilation_w;
      if (column < 0 || column >= conv.in_w) continue;
      float value[kPack];
      UnpackCompute<T, kPack>(LoadRaw<kPack>(from + (static_cast<int64_t>(line) * conv.in_w + column) * channels),
                              value);
#pragma unroll
      for (int c = 0; c < kPack; ++c) {
        sum[c] += weight[(i * conv.kernel_w + j) * kTileChannels + place.channel + c] * value[c];
      }
    }
  }
  WithActivation<float>(conv.activation, conv.parameters, [&](auto function) {
#pragma unroll
    for (int c = 0; c < kPack; ++c) sum[c] = function(sum[c]);
  });
  const int64_t pixel = (place.image * conv.out_h + place.row) * conv.out_w + place.column;
  StoreWords<kPack>(y + pixel * channels + channel, PackCompute<T, kPack>(sum));
}

// A kernel, and what its grid is made of.
template <class T>
struct Variant {
  void (*kernel)(const T*, const T*, const T*, T*, DepthwiseTileArgs);
  int columns, rows;  // of outputs that a thread computes
  int threads, places, tile_channels;
};

template <class T, class Tiling>
Variant<T> VariantOf(decltype(Variant<T>::kernel) kernel) {
  return {kernel, Tiling::kColumns, Tiling::kRows, Tiling::kThreads, Tiling::kPlaces, Tiling::kTileChannels};
}
template <class T, int kPack>
Variant<T> AnyVariant() {
  return VariantOf<T, AnyWindow<kPack>>(DepthwiseLastKernel<T, kPack>);
}
template <class T, class Tiling, int kBlocks>
Variant<T> TileVariant() {
  constexpr int kOfType = sizeof(T) == 2 || kBlocks == 1 ? kBlocks : kBlocks / 2;  // 32 bits take more registers
  return VariantOf<T, Tiling>(DepthwiseTileKernel<T, Tiling, kOfType>);
}

// Tilings of one window: where outputs fill the device (an H200), and for fewer, where how long one thread takes is
// what counts. ConvNeXt's and EfficientNet's layers at batch 32 and 1 chose them.
template <class T, class Large, int kLargeBlocks, class Small>
Variant<T> OfSize(const DepthwiseConv& conv) {
  constexpr int64_t kFewOutputs = 1 << 19;
  const bool is_large = conv.batch * conv.out_h * conv.out_w * conv.in_channels >= kFewOutputs;
  return is_large ? TileVariant<T, Large, kLargeBlocks>() : TileVariant<T, Small, 4>();
}

template <class T, class HasPacks>
Variant<T> Choose(const DepthwiseConv& c, HasPacks&& has_packs) {
  constexpr int kPack = PackElems(sizeof(T)), kMostTaps = 7;
  const bool square = c.kernel_h == c.kernel_w && c.stride_h == c.stride_w && c.dilation_h == 1 && c.dilation_w == 1;
  const auto reach = [](int64_t in, int64_t out, int64_t stride) { return std::max(in, out * stride) + kMostTaps; };
  const int64_t offsets = reach(c.in_h, c.out_h, c.stride_h) * reach(c.in_w, c.out_w, c.stride_w) * c.in_channels;
  if (square && FitsIndex(offsets) && has_packs(kDepthwisePack)) {
    using Small3 = DepthwiseTiling<3, 1, 128, 2, 1, 2>;
    using Small5 = DepthwiseTiling<5, 1, 128, 2, 1, 4>;
    using SmallStep5 = DepthwiseTiling<5, 2, 128, 2, 1, 4>;
    using Small7 = DepthwiseTiling<7, 1, 128, 2, 1, 6>;
    const int taps = c.kernel_h, step = c.stride_h;
    if (taps == 3 && step == 1) return OfSize<T, DepthwiseTiling<3, 1, 128, 4, 4, 1>, 4, Small3>(c);
    if (taps == 3 && step == 2) return TileVariant<T, DepthwiseTiling<3, 2, 128, 2, 1, 2>, 4>();
    if (taps == 5 && step == 1) return OfSize<T, DepthwiseTiling<5, 1, 256, 4, 4, 1>, 1, Small5>(c);
    if (taps == 5 && step == 2) return OfSize<T, DepthwiseTiling<5, 2, 128, 4, 2, 1>, 2, SmallStep5>(c);
    if (taps == 7 && step == 1) return OfSize<T, DepthwiseTiling<7, 1, 256, 7, 2, 1>, 1, Small7>(c);
  }
  return has_packs(kPack) ? AnyVariant<T, kPack>() : AnyVariant<T, 1>();
}

template <class T>
Status LaunchAs(const DepthwiseConv& conv, const void* x, const void* w, const void* bias, void* y,
                device::Stream stream) {
  const auto has_packs = [&](int pack) {
    const size_t bytes = sizeof(T) * static_cast<size_t>(pack);
    return conv.in_channels % pack == 0 && IsAligned(x, bytes) && IsAligned(y, bytes) && IsAligned(bias, bytes);
  };
  const Variant<T> variant = Choose<T>(conv, has_packs);
  const int64_t columns = CeilDiv(conv.out_w, variant.columns), rows = CeilDiv(conv.out_h, variant.rows);
  const int64_t tiles = CeilDiv(conv.in_channels, variant.tile_channels), image_places = columns * rows;
  DepthwiseTileArgs args{};
  args.conv = conv;
  args.tiles = FastDivider(static_cast<uint32_t>(tiles));
  args.columns = FastDivider(static_cast<uint32_t>(columns));
  args.rows = FastDivider(static_cast<uint32_t>(rows));
  // Numbers of places and of blocks stay below 2^31: as many whole images a launch as fit.
  const int64_t most = std::max<int64_t>(1, (index_limit + 1 - variant.threads) / (image_places * tiles));
  for (int64_t image = 0; image < conv.batch; image += most) {
    args.first_image = image;
    args.places = static_cast<uint32_t>(std::min(conv.batch - image, most) * image_places);
    device::LaunchConfig config;
    config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(args.places, variant.places) * tiles);
    config.block.x = static_cast<unsigned>(variant.threads);
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
