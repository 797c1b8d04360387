#include "core/checked_math.h"
#include "device/tensor_core.h"
#include "kernels/conv/stem_steps.h"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kLanes = 32, kPackElements = PackElems(sizeof(uint16_t));

int64_t PackCount(const StemConv& conv) {
  return CeilDiv<int64_t>(conv.out_channels, kStemGroup) * StemStepsFor(conv.window_rows()) * 2 * kLanes;
}

// A pack is the words of one lane that follow each other in a step's half: of the group's four tiles of 8 columns,
// whose columns are channels in such an order that a lane's results are 8 neighbours.
__global__ void __launch_bounds__(kThreads)
    PackStemKernel(const uint16_t* w, uint16_t* packed, __grid_constant__ const StemConv conv, int steps, int packs) {
  device::GridDependencyWait();
  const int at = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (at >= packs) return;
  const int lane = at % kLanes, half = at / kLanes % 2, step = at / (2 * kLanes) % steps;
  const int group = at / (2 * kLanes * steps), row = 2 * step + half;
  Pack<uint16_t, kPackElements> pack{};
#pragma unroll
  for (int i = 0; i < kPackElements; ++i) {
    const int tile = i / 2, g = lane / 4;
    const int channel = group * kStemGroup + g / 2 * 8 + tile * 2 + g % 2;
    const int column = lane % 4 * 2 + i % 2 - conv.first_column();
    if (channel >= conv.out_channels || row >= conv.window_rows() || column < 0 || column >= conv.kernel_w) continue;
    const int64_t filter = int64_t{channel} * conv.channels + row % conv.channels;
    pack.value[i] = w[(filter * conv.kernel_h + row / conv.channels) * conv.kernel_w + column];
  }
  StorePack(packed + int64_t{at} * kPackElements, pack);
}

}  // namespace

size_t PackedStemBytes(const StemConv& conv) { return static_cast<size_t>(PackCount(conv)) * kPackBytes; }

Status LaunchPackStem(const StemConv& conv, const void* w, void* packed, device::Stream stream) {
  const auto packs = static_cast<int>(PackCount(conv));
  device::LaunchConfig config;
  config.grid.x = CeilDiv<unsigned>(static_cast<unsigned>(packs), kThreads);
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(PackStemKernel, config, stream, static_cast<const uint16_t*>(w), static_cast<uint16_t*>(packed),
                        conv, StemStepsFor(conv.window_rows()), packs);
}

}  // namespace cudaep::kernels
