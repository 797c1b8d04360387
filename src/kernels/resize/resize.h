// Resampling of a tensor along any of its dimensions: nearest neighbour, or interpolation by a linear or cubic filter.
//
// Output coordinate i of a scaled dimension lies at offset + (i + before) * numerator / denominator - after in the
// input, computed in fp32 as ONNX Runtime does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr int kMaxResizeRank = 8;

// Element types with interpolation: integers are truncated, 64-bit ones computed in double. Nearest neighbour moves
// anything of fixed size.
inline constexpr DataTypeSet kInterpolationTypes = kNumericTypes;

// How a coordinate becomes the index of one input.
enum class NearestMode : uint8_t { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };

struct ResizeDim {
  int64_t in = 1, out = 1;
  bool scaled = false;  // otherwise output i is input i
  float offset = 0, before = 0, numerator = 1, denominator = 1, after = 0;
  NearestMode nearest = NearestMode::kFloor;
  float shrink = 1;  // scale of the filter: below 1 it is widened against aliasing
};

enum class Filter : uint8_t { kLinear, kCubic };

// Dimensions innermost first, neighbours that are not scaled merged.
struct ResizeShape {
  int rank = 1;
  ResizeDim dim[kMaxResizeRank];
  bool extrapolate = false;  // outputs whose coordinate is outside the input get `extrapolation`
  float extrapolation = 0;
};

Status LaunchResizeNearest(const ResizeShape& shape, DataType type, const void* x, void* y, device::Stream stream);

struct Interpolation {
  Filter filter = Filter::kLinear;
  float cubic_coefficient = -0.75f;
  bool exclude_outside = false;  // taps outside the input get no weight; otherwise they repeat its edge
  bool antialias = false;        // weights are normalised, integers rounded instead of truncated
};

Status LaunchResizeInterpolate(const ResizeShape& shape, const Interpolation& how, DataType type, const void* x,
                               void* y, device::Stream stream);

}  // namespace cudaep::kernels
