// Groups of channels of images, each normalised by itself, with a scale and a bias for each channel, and x * sigmoid(x)
// in the end where that is wanted. Channels first or last.
//
// One launch, and each element is read once, where the registers of the blocks of a cluster hold a slice: as many whole
// groups of an image as make whole packs. Two launches else: moments of parts, which the second one merges in a fixed
// order. fp32 arithmetic; the variance is never a difference of squares. `y` may be `x`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kGroupNormTypes{DataType::kFloat, DataType::kFloat16, DataType::kBFloat16};
inline constexpr unsigned kGroupThreads = 256;    // of a block, at most
inline constexpr unsigned kGroupCluster = 8;      // blocks of a cluster, at most
inline constexpr unsigned kGroupParts = 32;       // of a group, that the warps of a cluster leave, at most
inline constexpr unsigned kMostSliceGroups = 32;  // groups of a slice, at most

struct GroupNormProblem {
  DataType type = DataType::kUndefined;
  int64_t batch = 1, channels = 1, pixels = 1;  // of a tensor that is not empty
  int64_t groups = 1;                           // that divide the channels
  bool channels_last = false;
};

// Images as kernels see them: channels first, each group of a sample is one, its packs are pixels.
struct GroupNormPlan {
  int pack = 1;  // elements of 16 bytes
  int held = 0;  // packs of a thread that reads a slice once, at most 8; 0: two launches read it twice
  int64_t images = 0, slices = 0;               // slices of an image
  int32_t pixels = 0, channels = 0, group = 0;  // of an image, `group` channels of one group
  int32_t slice_groups = 0, packs = 0;          // of a slice; packs of a slice's pixel
  int32_t rows = 0;                             // pixels that a block reads at a time
  unsigned threads = 0;                         // of a block
  int32_t blocks = 0, block_pixels = 0;         // that share a slice, and what each has of it at most

  size_t shared_bytes() const;
  // Of the moments of parts, in device memory.
  size_t parts_bytes() const {
    return held != 0 ? 0 : static_cast<size_t>(images * slices * slice_groups * blocks) * 4 * sizeof(float);
  }
};

// Whether images with their channels last are made of packs that have channels of two groups at most.
bool HasGroupPacks(DataType type, int64_t channels, int64_t groups);

// Nothing for other types and images without packs, groups that no block has threads for, and images of more elements
// than 32 bits number.
std::optional<GroupNormPlan> PlanGroupNorm(const GroupNormProblem& problem, const device::DeviceInfo& device);

struct GroupNormArgs {
  const GroupNormProblem* problem = nullptr;
  const GroupNormPlan* plan = nullptr;
  DataType affine_type = DataType::kUndefined;  // of scale and bias, a type of floats
  const void* x = nullptr;                      // x and y allow packs
  void* y = nullptr;
  const void* scale = nullptr;  // or null
  const void* bias = nullptr;   // or null
  void* parts = nullptr;        // the plan's bytes
  double epsilon = 0;
  bool swish = false;
};

Status LaunchGroupNorm(const GroupNormArgs& args, device::Stream stream);

}  // namespace cudaep::kernels
