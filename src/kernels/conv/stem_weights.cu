#include "core/checked_math.h"
#include "device/tensor_core.h"
#include "kernels/conv/stem_steps.h"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kLanes = 32, kPackElements = PackElems(sizeof(uint16_t));

// Of both kinds a step's 16 rows of a group's channels are 4 or 8 packs each.
int64_t PackCount(const StemConv& conv) {
  const int64_t packs_of_step = int64_t{2} * kStemColumns * StemChannelsTogether(conv) / kPackElements;
  return CeilDiv<int64_t>(conv.out_channels, StemChannelsTogether(conv)) * StemStepsFor(conv.window_rows()) *
         packs_of_step;
}

// Where an element of a pack belongs.
struct WeightPlace {
  int channel, row, column;  // of the window, its first columns without weights included
};

// A pack is the words of one lane that follow each other in a step's half: of the group's four tiles of 8 columns,
// whose columns are channels in such an order that a lane's results are 8 neighbours.
__device__ __forceinline__ WeightPlace PlaceOfRows(int pack, int i, int steps) {
  const int lane = pack % kLanes, half = pack / kLanes % 2, step = pack / (2 * kLanes) % steps;
  const int group = pack / (2 * kLanes * steps), tile = i / 2, g = lane / 4;
  return {group * kStemWarpChannels + g / 2 * 8 + tile * 2 + g % 2, 2 * step + half, lane % 4 * 2 + i % 2};
}

// A box of rows of 64 channels (device/warpgroup.h), one for each column of each of the window's rows, its pieces where
// products want them, and channels in such an order that a lane's are 16 neighbours.
__device__ __forceinline__ WeightPlace PlaceOfWarpgroup(int pack, int i, int steps) {
  constexpr int kPieces = kStemWarpgroupChannels / kPackElements;
  const int line = pack / kPieces % (steps * 2 * kStemColumns), group = pack / (kPieces * steps * 2 * kStemColumns);
  const int piece = pack % kPieces ^ line % 8;
  return {group * kStemWarpgroupChannels + i / 2 * 16 + piece * 2 + i % 2, line / kStemColumns, line % kStemColumns};
}

__global__ void __launch_bounds__(kThreads)
    PackStemKernel(const uint16_t* w, uint16_t* packed, __grid_constant__ const StemConv conv, int steps, int packs) {
  device::GridDependencyWait();
  const int at = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (at >= packs) return;
  Pack<uint16_t, kPackElements> pack{};
#pragma unroll
  for (int i = 0; i < kPackElements; ++i) {
    const auto [channel, row, place] = conv.by_warpgroup ? PlaceOfWarpgroup(at, i, steps) : PlaceOfRows(at, i, steps);
    const int column = place - conv.first_column();
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
