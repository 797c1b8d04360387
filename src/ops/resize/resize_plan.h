// Resize and Upsample: attributes, output shape, and how output coordinates map to the input. Pure.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "core/shape.h"
#include "kernels/resize/resize.h"
#include "ops/op_info.h"

namespace cudaep::ops {

enum class CoordinateMode : uint8_t {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAsymmetric,
  kAlignCorners,
  kTfHalfPixelForNn,
  kTfCropAndResize,
};

enum class AspectPolicy : uint8_t { kStretch, kNotLarger, kNotSmaller };

struct ResizeAttributes {
  bool nearest = true;  // otherwise `interpolation`
  kernels::Interpolation interpolation;
  // Absent: the floor for a scale of 1 and more, the ceiling below it (before opset 11).
  std::optional<kernels::NearestMode> nearest_mode;
  CoordinateMode coordinates = CoordinateMode::kHalfPixel;
  AspectPolicy policy = AspectPolicy::kStretch;
  float extrapolation = 0;
  std::vector<int64_t> axes;  // empty: all
};

Result<ResizeAttributes> ParseResize(const OpInfo& info);

// Values of the host inputs; empty where absent. For the given axes only when the node has axes.
struct ResizeInputs {
  std::vector<float> scales = {};
  std::vector<int64_t> sizes = {};
  std::vector<float> roi = {};  // starts, then ends
};

// One dimension of the input after scales, sizes, axes and policy were combined.
struct ResizeAxis {
  int64_t in = 1, out = 1;
  float scale = 1;
  float length = 1;  // of the output before it was made whole: a scale times `in`, which ONNX aligns corners to
  float roi_begin = 0, roi_end = 1;
};

Result<std::vector<ResizeAxis>> CombineAxes(const ResizeAttributes& attributes, Dims x, const ResizeInputs& inputs);

// kNotSupported when more than kMaxResizeRank dimensions remain after merging those that are not scaled.
Result<kernels::ResizeShape> PlaceResize(const ResizeAttributes& attributes, const std::vector<ResizeAxis>& axes);

}  // namespace cudaep::ops
