#include <algorithm>
#include <cmath>
#include <limits>

#include "core/checked_math.h"
#include "kernels/conv/stem_kernel.cuh"
#include "kernels/conv/stem_rows.cuh"
#include "kernels/gemm/warpgroup_tiles.h"
#include "kernels/index_limit.h"

namespace cudaep::kernels {
namespace {

using stem::Arguments, stem::ConvRows, stem::ResultColumns;

constexpr int kMostSharedBytes = 48 << 10;  // of the image
constexpr int kWaves = 4;                   // of blocks, where there is that much work: the last one is rarely full

struct Blocks {
  int channel_warps;
  int64_t channels, columns;
};
Blocks BlocksOf(const StemConv& conv) {
  const int64_t groups = CeilDiv<int64_t>(conv.out_channels, StemChannelsTogether(conv));
  const int channel_warps = conv.by_warpgroup || groups == 1 ? 1 : 2;
  return {channel_warps, CeilDiv<int64_t>(groups, channel_warps),
          CeilDiv<int64_t>(conv.y_w(), stem::kWarps / channel_warps * ResultColumns(conv.pools))};
}

// The last step may read rows of the window that are none.
int SharedBytes(const StemConv& conv, int rows) {
  const int beyond = 2 * StemStepsFor(conv.window_rows()) - conv.window_rows();
  const int image_rows = stem::ImageRows(conv, ConvRows(conv.pools, rows));
  return (image_rows * conv.channels + beyond) * stem::kPitch * static_cast<int>(sizeof(uint32_t));
}

// None and ReLU as bounds, of which one that is no number bounds nothing.
ActivationParameters BoundsOf(const StemConv& conv) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (conv.activation == Activation::kNone) return {-kInfinity, kInfinity};
  if (conv.activation == Activation::kRelu) return {0.0f, kInfinity};
  if (conv.activation != Activation::kClip) return conv.parameters;
  return {std::isnan(conv.parameters.a) ? -kInfinity : conv.parameters.a,
          std::isnan(conv.parameters.b) ? kInfinity : conv.parameters.b};
}

}  // namespace

bool TakesStemWarpgroup(const StemConv& conv, const device::DeviceInfo& device) {
  return HasWarpgroups(device) && conv.out_channels % kStemWarpgroupChannels == 0;
}

int StemRowsOfBlock(const StemConv& conv, int multiprocessors) {
  const Blocks blocks = BlocksOf(conv);
  int most = 1;
  while (most < conv.y_h() && SharedBytes(conv, most + 1) <= kMostSharedBytes) ++most;
  const int64_t rows = conv.batch * conv.y_h() * blocks.columns * blocks.channels;
  const int64_t wanted = rows / (int64_t{kWaves} * stem::kBlocksTogether * multiprocessors);
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
              .y = quantized::Quantizer::Of(conv.y, conv.bounds),
              .x_in_packs = IsAligned(at.x, pack_bytes) && conv.in_w % kStemPack == 0,
              .y_in_packs = IsAligned(at.y, pack_bytes)};
  p.conv.parameters = BoundsOf(conv);
  device::LaunchConfig config;
  config.block.x = stem::kThreads;
  config.shared_bytes = static_cast<size_t>(SharedBytes(conv, rows_of_block));
  config.programmatic = constant_weights;
  // As many whole images a launch as 31 bits number blocks of.
  const int64_t most = std::max<int64_t>(1, index_limit / image_blocks);
  for (; p.first_image < conv.batch; p.first_image += most) {
    config.grid.x = static_cast<unsigned>(std::min(conv.batch - p.first_image, most) * image_blocks);
    CUDAEP_RETURN_IF_ERROR(conv.by_warpgroup ? stem::LaunchWarpgroup(p, config, stream)
                                             : stem::LaunchProducts<stem::Rows>(p, config, stream));
  }
  return Status::Ok();
}

}  // namespace cudaep::kernels
