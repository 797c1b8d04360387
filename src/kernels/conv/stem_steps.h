// The instances of the stem's kernel by how many steps of the inner dimension they take, two rows of a window each:
// compiled for a fixed number, so that what is multiplied lies in registers.
#pragma once

#include "kernels/conv/stem_conv.h"

namespace cudaep::kernels {

inline constexpr int kStemSteps[] = {5, 8, kMostStemRows / 2};
inline constexpr int kStemWarpChannels = 32;       // output channels of a warp
inline constexpr int kStemWarpgroupChannels = 64;  // of a warpgroup

constexpr int StemChannelsTogether(const StemConv& conv) {
  return conv.by_warpgroup ? kStemWarpgroupChannels : kStemWarpChannels;
}

// Steps of an instance, and the fewest rows of a window that it is taken for.
constexpr int StemStepsFor(int window_rows) {
  for (const int steps : kStemSteps) {
    if (window_rows <= 2 * steps) return steps;
  }
  return 0;
}
constexpr int FewestStemRows(int steps) {
  int fewest = 1;
  for (const int fewer : kStemSteps) {
    if (fewer < steps) fewest = 2 * fewer + 1;
  }
  return fewest;
}

}  // namespace cudaep::kernels
