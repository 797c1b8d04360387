// Samples images or volumes at places that a grid gives, and the grid of an affine map.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

enum class SampleMode : uint8_t { kNearest, kLinear, kCubic };
enum class SamplePadding : uint8_t { kZeros, kBorder, kReflection };

// x [batch, channels, in...], grid [batch, points, rank], y [batch, channels, points]; the grid's last dimension counts
// from x's innermost spatial one. Two dimensions have a leading one of size 1. Channels last: x [batch, in...,
// channels], y [batch, points, channels].
struct GridSample {
  int64_t batch = 0, channels = 0, points = 0;
  int32_t rank = 2;
  int64_t in[3] = {1, 1, 1};
  SampleMode mode = SampleMode::kLinear;
  SamplePadding padding = SamplePadding::kZeros;
  bool align_corners = false, channels_last = false;

  int64_t output_elems() const { return batch * channels * points; }
};

// Types of the grid, and of x for other modes than nearest, which takes everything of fixed size. Places are computed
// in the wider of fp32 and x's type; nearest: of fp32 and the grid's.
inline constexpr DataTypeSet kSampleTypes = kFloatTypes;

Status LaunchGridSample(const GridSample& problem, DataType type, DataType grid_type, const void* x, const void* grid,
                        void* y, device::Stream stream);

// theta [batch, rank, rank + 1], grid [batch, size..., rank] for `size` with a leading 1 where rank is 2.
struct AffineGrid {
  int64_t batch = 0, size[3] = {1, 1, 1};
  int32_t rank = 2;
  bool align_corners = false;
};
Status LaunchAffineGrid(const AffineGrid& problem, DataType type, const void* theta, void* grid, device::Stream stream);

}  // namespace cudaep::kernels
