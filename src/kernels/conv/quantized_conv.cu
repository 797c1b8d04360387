// QuantizedConv by the tensor cores of a warp, and its launch.
#include <algorithm>

#include "device/device_info.h"
#include "kernels/conv/quantized_conv.cuh"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

using quantized::Arguments, quantized::kMmaBytes, quantized::kMmaColumns, quantized::kMmaRows, quantized::Piece;
using quantized::Tile, quantized::Tiling;

template <class S>
class MmaProducts {
 public:
  static constexpr size_t kSlack = 0;
  static __device__ __forceinline__ uint8_t* AlignStages(uint8_t* shared) { return shared; }
  __device__ __forceinline__ MmaProducts(int pixel, int channel, int split)
      : pixel_(pixel), channel_(channel), split_(split) {}

  static __device__ __forceinline__ void SeeCopies() {}
  __device__ __forceinline__ void Start(const uint8_t* /*stage*/, bool /*adds*/) {}
  __device__ __forceinline__ void End(const uint8_t* stage, int left) {
    if (left >= S::kStepBytes) {
#pragma unroll
      for (int n = 0; n < S::kDepths / S::kSplits; ++n) Multiply(stage, n * S::kSplits + split_);
    } else {
#pragma unroll 1
      for (int depth = split_; depth * kMmaBytes < left; depth += S::kSplits) Multiply(stage, depth);
    }
  }
  __device__ __forceinline__ void Settle() {}
  __device__ __forceinline__ const device::FragmentD<int32_t>& At(int i, int j) const { return sums_[i][j]; }

  // Sums of which each warp has a part: all go to shared memory, and each warp adds up those of some fragments.
  __device__ __forceinline__ void ShareParts(uint8_t* shared) const {
    auto* const parts = reinterpret_cast<Piece*>(shared) + split_ * S::kFragments * 32 + threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < S::kFragments; ++n) {
      const auto& value = sums_[n / S::kColumnTiles][n % S::kColumnTiles].value;
      Piece piece;
#pragma unroll
      for (int v = 0; v < 4; ++v) piece.word[v] = static_cast<uint32_t>(value[v]);
      parts[n * 32] = piece;
    }
  }
  static __device__ __forceinline__ device::FragmentD<int32_t> TotalOf(const uint8_t* shared, int n) {
    const auto* const parts = reinterpret_cast<const Piece*>(shared) + n * 32 + threadIdx.x % 32;
    device::FragmentD<int32_t> total = {};
#pragma unroll
    for (int split = 0; split < S::kSplits; ++split) {
      const Piece piece = parts[split * S::kFragments * 32];
#pragma unroll
      for (int v = 0; v < 4; ++v) total.value[v] += static_cast<int32_t>(piece.word[v]);
    }
    return total;
  }

 private:
  // sums += pixels * weights of 32 bytes of the step.
  __device__ __forceinline__ void Multiply(const uint8_t* stage, int depth) {
    const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8, row = lane % 8;
    device::FragmentA<int8_t> a[S::kRowTiles];
#pragma unroll
    for (int i = 0; i < S::kRowTiles; ++i) {
      device::LoadMatrix<4>(a[i].word, stage + quantized::PlaceOf<S>(pixel_ + i * kMmaRows + matrix % 2 * 8 + row,
                                                                     depth * 2 + matrix / 2));
    }
    device::FragmentB<int8_t> b[S::kColumnTiles];
#pragma unroll
    for (int j = 0; j < S::kColumnTiles; j += 2) {
      uint32_t word[4];
      const int line = S::kPixels + channel_ + j * kMmaColumns + matrix / 2 * 8 + row;
      device::LoadMatrix<4>(word, stage + quantized::PlaceOf<S>(line, depth * 2 + matrix % 2));
      b[j] = {{word[0], word[1]}}, b[j + 1] = {{word[2], word[3]}};
    }
#pragma unroll
    for (int i = 0; i < S::kRowTiles; ++i) {
#pragma unroll
      for (int j = 0; j < S::kColumnTiles; ++j) device::Mma(sums_[i][j], a[i], b[j]);
    }
  }

  int pixel_, channel_, split_;
  device::FragmentD<int32_t> sums_[S::kRowTiles][S::kColumnTiles] = {};
};

template <class S>
Tile MakeTile() {
  return quantized::MakeTile<S, MmaProducts>();
}

// By warps at most 99 KB of shared memory: what devices of consumers have.
Tile TileOf(QuantizedConvTile tile) {
  switch (tile) {
    case QuantizedConvTile::k128x128:
      return MakeTile<Tiling<128, 128, 64, 32, 1, 3, 2>>();
    case QuantizedConvTile::k128x64:
      return MakeTile<Tiling<128, 64, 64, 32, 1, 3, 3>>();
    case QuantizedConvTile::k64x32:
      return MakeTile<Tiling<64, 32, 32, 16, 1, 5, 4>>();
    case QuantizedConvTile::k64x64:
      return MakeTile<Tiling<64, 64, 32, 32, 1, 3, 4>>();
    case QuantizedConvTile::k32x32:
      return MakeTile<Tiling<32, 32, 32, 32, 8, 6, 2>>();
    default:
      return quantized::WarpgroupTile(tile);
  }
}

bool IsOfPoints(const QuantizedConv& conv) {
  return conv.kernel_h == 1 && conv.kernel_w == 1 && conv.pad_top == 0 && conv.pad_left == 0 &&
         int64_t{conv.out_h - 1} * conv.stride_h < conv.in_h && int64_t{conv.out_w - 1} * conv.stride_w < conv.in_w;
}

std::optional<WarpgroupTiles> PointsOf(QuantizedConvTile tile) {
  switch (tile) {
    case QuantizedConvTile::kFinePoints:
      return WarpgroupTiles::kFine;
    case QuantizedConvTile::kSmallPoints:
      return WarpgroupTiles::kSmall;
    case QuantizedConvTile::kTallPoints:
      return WarpgroupTiles::kTall;
    default:
      return std::nullopt;
  }
}

bool Takes(QuantizedConvTile tile, const QuantizedConv& conv, const device::DeviceInfo& device) {
  if (PointsOf(tile)) {
    return IsOfPoints(conv) && conv.stride_h == 1 && conv.stride_w == 1 && conv.to_codes &&
           conv.out_channels % kWarpgroupSegment == 0 &&
           TakesWarpgroups(conv.pixels(), conv.out_channels, conv.channels, device);
  }
  const bool by_groups = tile == QuantizedConvTile::k128x64Groups || tile == QuantizedConvTile::k128x128Groups;
  return !by_groups || HasWarpgroups(device);
}

QuantizedConvChoice ChoiceOf(QuantizedConvTile tile, const QuantizedConv& conv, const device::DeviceInfo& device) {
  const auto points = PointsOf(tile);
  return {.tile = tile,
          .points = points ? PlanWarpgroups(conv.pixels(), conv.out_channels, *points, device) : WarpgroupPlan{}};
}

struct Size {
  int64_t pixels, channels;
};
Size SizeOf(QuantizedConvTile tile) {
  if (const auto points = PointsOf(tile)) return {WarpgroupRows(*points), WarpgroupColumns(*points)};
  const Tile of = TileOf(tile);
  return {of.pixels, of.channels};
}

}  // namespace

Result<QuantizedConvChoice> ChooseQuantizedConv(const QuantizedConv& conv, const device::DeviceInfo& device,
                                                std::optional<QuantizedConvTile> forced) {
  if (forced) {
    if (!Takes(*forced, conv, device)) return NotSupported("tile ", static_cast<int>(*forced), " of this convolution");
    return ChoiceOf(*forced, conv, device);
  }
  // Found on an H200: us of a round of each tile, a tile for each multiprocessor, beside its steps of 128 bytes along
  // the inner dimension, and of a step. A round goes by before and after. Of ResNet-50's layers it misses 1 to 3% of
  // the best tiles' time at batches of 1 to 128.
  constexpr struct {
    float round, step;
  } kCosts[kQuantizedConvTiles] = {{0.76f, 0.11f}, {0.43f, 0.22f}, {1.21f, 0.17f}, {0.96f, 0.35f}, {1.65f, 0.48f},
                                   {1.10f, 0.20f}, {2.02f, 0.18f}, {1.20f, 0.14f}, {3.86f, 0.24f}, {3.13f, 0.24f}};
  constexpr int64_t kStepBytes = 128;
  const auto steps =
      static_cast<float>(CeilDiv<int64_t>(int64_t{conv.kernel_h} * conv.kernel_w * conv.channels, kStepBytes));
  auto best = QuantizedConvTile::k32x32;
  float least = std::numeric_limits<float>::infinity();
  for (int i = 0; i < kQuantizedConvTiles; ++i) {
    const auto tile = static_cast<QuantizedConvTile>(i);
    if (!Takes(tile, conv, device)) continue;
    const Size size = SizeOf(tile);
    const int64_t tiles = CeilDiv(conv.pixels(), size.pixels) * CeilDiv<int64_t>(conv.out_channels, size.channels);
    const auto rounds = static_cast<float>(CeilDiv<int64_t>(tiles, std::max(device.multiprocessors, 1)) + 1);
    const float cost = rounds * (kCosts[i].round + kCosts[i].step * steps);
    if (cost < least) best = tile, least = cost;
  }
  return ChoiceOf(best, conv, device);
}

Status LaunchQuantizedConv(const QuantizedConv& conv, const QuantizedConvChoice& choice, bool constant_weights,
                           const QuantizedConvPointers& at, device::Stream stream) {
  if (conv.pixels() == 0 || conv.out_channels == 0) return Status::Ok();
  if (conv.channels % kQuantizedConvPack != 0 || !IsAligned(at.x, 16) || !IsAligned(at.w, 16)) {
    return InvalidArgument("codes of ", conv.channels, " channels that are no whole packs, or not aligned to them");
  }
  const int64_t image_bytes = int64_t{conv.in_h} * conv.in_w * conv.channels;
  const int64_t image_pixels = int64_t{conv.out_h} * conv.out_w;
  const int64_t most = std::numeric_limits<int32_t>::max();  // of bytes and pixels of a launch
  const int64_t images = std::clamp<int64_t>(most / std::max<int64_t>({image_bytes, image_pixels, 1}), 1, conv.batch);
  Arguments p{.conv = conv, .at = at};
  if (conv.to_codes) {
    p.y = quantized::Quantizer::Of(conv.y, conv.bounds), p.sum = quantized::Quantizer::Of(conv.sum, conv.sum_bounds);
  }
  p.y_ratio = conv.y.scale / conv.sum.scale * kInverseWholeRange;
  p.residual_ratio = conv.residual.scale / conv.sum.scale * kInverseWholeRange;
  p.residual = {.scale = conv.residual.scale,
                .above_lowest = conv.residual.zero - conv.residual.lowest,
                .flip = conv.residual.lowest < 0 ? 0x80u : 0u};
  p.out_w = FastDivider(conv.out_w), p.out_h = FastDivider(conv.out_h);
  p.packs = conv.out_channels % 16 == 0 && IsAligned(at.y, 16) && IsAligned(at.residual, 16);
  p.constant_weights = constant_weights;
  const bool points = PointsOf(choice.tile).has_value();
  if (points && p.packs) {
    p.pixels = static_cast<int32_t>(conv.pixels());
    return quantized::LaunchPoints(p, choice.points, stream);
  }
  // Products store whole packs: where y is not aligned to them, tiles that do not.
  const Tile shape = TileOf(points ? QuantizedConvTile::k128x64Groups : choice.tile);
  p.channel_tiles = FastDivider(CeilDiv<uint32_t>(conv.out_channels, shape.channels));
  device::LaunchConfig config;
  config.block.x = static_cast<unsigned>(shape.threads);
  const int64_t steps = CeilDiv<int64_t>(int64_t{conv.kernel_h} * conv.kernel_w * conv.channels, shape.step_bytes);
  const auto stages = static_cast<int>(std::min<int64_t>(steps, shape.stages));
  config.shared_bytes = static_cast<size_t>(std::max(stages * shape.stage_bytes, shape.result_bytes)) + shape.slack;
  config.programmatic = true;
  for (int64_t first = 0; first < conv.batch; first += images) {
    const int64_t count = std::min(images, conv.batch - first), outputs = first * image_pixels * conv.out_channels;
    p.pixels = static_cast<int32_t>(count * image_pixels);
    p.at.x = static_cast<const std::byte*>(at.x) + first * image_bytes;
    if (conv.has_residual) p.at.residual = static_cast<const std::byte*>(at.residual) + outputs;
    p.at.y = static_cast<std::byte*>(at.y) + outputs * (conv.to_codes ? 1 : int64_t{sizeof(float)});
    config.grid.x = CeilDiv<unsigned>(p.pixels, shape.pixels) * p.channel_tiles.divisor;
    CUDAEP_RETURN_IF_ERROR(device::Launch(IsOfPoints(conv) ? shape.points : shape.windows, config, stream, p.at.y, p));
  }
  return Status::Ok();
}

}  // namespace cudaep::kernels
