#include "ops/resize/resize_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/checked_math.h"

namespace cudaep::ops {
namespace {

using kernels::NearestMode;
using kernels::ResizeDim;

template <class Value>
struct Named {
  std::string_view name;
  Value value;
};

constexpr Named<CoordinateMode> kCoordinateModes[] = {
    {"half_pixel", CoordinateMode::kHalfPixel},
    {"half_pixel_symmetric", CoordinateMode::kHalfPixelSymmetric},
    {"pytorch_half_pixel", CoordinateMode::kPytorchHalfPixel},
    {"asymmetric", CoordinateMode::kAsymmetric},
    {"align_corners", CoordinateMode::kAlignCorners},
    {"tf_half_pixel_for_nn", CoordinateMode::kTfHalfPixelForNn},
    {"tf_crop_and_resize", CoordinateMode::kTfCropAndResize},
};
constexpr Named<NearestMode> kNearestModes[] = {
    {"round_prefer_floor", NearestMode::kRoundPreferFloor},
    {"round_prefer_ceil", NearestMode::kRoundPreferCeil},
    {"floor", NearestMode::kFloor},
    {"ceil", NearestMode::kCeil},
};
constexpr Named<AspectPolicy> kPolicies[] = {
    {"stretch", AspectPolicy::kStretch},
    {"not_larger", AspectPolicy::kNotLarger},
    {"not_smaller", AspectPolicy::kNotSmaller},
};

template <class Value, size_t kCount>
Result<Value> Find(const Named<Value> (&table)[kCount], const char* attribute, std::string_view name) {
  for (const Named<Value>& row : table) {
    if (row.name == name) return row.value;
  }
  return InvalidArgument("attribute ", attribute, " is '", name, "', which ONNX does not define");
}

constexpr float kLargestExtent = 1.0e12f;
constexpr float kLargestRoi = 1.0e6f;  // in sizes of the input
constexpr float kWidestFilter = 1.0e6f;

// The size of a dimension at a scale, in the precision that the host's shape inference uses.
Result<int64_t> Scaled(int64_t in, float scale, int axis) {
  const float out = std::floor(static_cast<float>(in) * scale);
  if (!(scale > 0.0f) || !(out < kLargestExtent)) {
    return InvalidArgument("the scale ", scale, " of axis ", axis, " is not positive or too large");
  }
  return static_cast<int64_t>(out);
}

// The axis of each value in scales, sizes and roi.
Result<std::vector<int>> AxesOf(const ResizeAttributes& attributes, int rank) {
  std::vector<int> axes;
  for (int64_t axis : attributes.axes) {
    CUDAEP_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(axis, rank, "attribute axes"));
    if (std::find(axes.begin(), axes.end(), normal) != axes.end()) {
      return InvalidArgument("attribute axes ", Dims(attributes.axes), " names axis ", normal, " twice");
    }
    axes.push_back(normal);
  }
  for (int axis = 0; attributes.axes.empty() && axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

Status CheckLength(const char* name, size_t count, size_t wanted) {
  if (count == wanted) return Status::Ok();
  return InvalidArgument("input ", name, " has ", count, " values, ", wanted, " are needed");
}

// Replaces what `sizes` says by one scale for all axes that keeps the picture inside or outside of it.
Status KeepAspect(AspectPolicy policy, const std::vector<int>& chosen, std::vector<ResizeAxis>* axes) {
  float scale = policy == AspectPolicy::kNotLarger ? INFINITY : 0.0f;
  for (int i : chosen) {
    const float one = (*axes)[static_cast<size_t>(i)].scale;
    scale = policy == AspectPolicy::kNotLarger ? std::min(scale, one) : std::max(scale, one);
  }
  for (int i : chosen) {
    ResizeAxis& axis = (*axes)[static_cast<size_t>(i)];
    axis.scale = scale;
    axis.length = scale * static_cast<float>(axis.in);
    const float out = std::floor(axis.length + 0.5f);
    if (!(out < kLargestExtent)) return InvalidArgument("input sizes enlarges axis ", i, " by ", scale);
    axis.out = static_cast<int64_t>(out);
  }
  return Status::Ok();
}

ResizeDim PlaceDim(const ResizeAttributes& attributes, const ResizeAxis& axis) {
  const float in = static_cast<float>(axis.in);
  ResizeDim dim{.in = axis.in, .out = axis.out};
  dim.scaled = axis.in != axis.out || axis.scale != 1.0f || attributes.coordinates == CoordinateMode::kTfCropAndResize;
  dim.denominator = axis.scale;
  switch (attributes.coordinates) {
    case CoordinateMode::kHalfPixelSymmetric:
      dim.offset = in / 2.0f * (1.0f - static_cast<float>(axis.out) / axis.length);
      [[fallthrough]];
    case CoordinateMode::kHalfPixel:
      dim.before = dim.after = 0.5f;
      break;
    case CoordinateMode::kPytorchHalfPixel:
      if (axis.out > 1) {
        dim.before = dim.after = 0.5f;
      } else {
        dim.numerator = 0;
      }
      break;
    case CoordinateMode::kAsymmetric:
      break;
    case CoordinateMode::kTfHalfPixelForNn:
      dim.before = 0.5f;
      break;
    case CoordinateMode::kAlignCorners:
      dim.numerator = axis.out > 1 ? in - 1.0f : 0.0f;
      dim.denominator = axis.out > 1 ? axis.length - 1.0f : 1.0f;
      break;
    case CoordinateMode::kTfCropAndResize:
      dim.offset = axis.roi_begin * (in - 1.0f);
      dim.numerator = (axis.roi_end - axis.roi_begin) * (in - 1.0f);
      dim.denominator = axis.out > 1 ? axis.length - 1.0f : 1.0f;
      if (axis.out == 1) {
        dim.offset = 0.5f * (axis.roi_begin + axis.roi_end) * (in - 1.0f);
        dim.numerator = 0;
      }
      break;
  }
  dim.nearest = attributes.nearest_mode.value_or(axis.scale < 1.0f ? NearestMode::kCeil : NearestMode::kFloor);
  if (attributes.interpolation.antialias) dim.shrink = std::min(1.0f, axis.scale);
  return dim;
}

}  // namespace

Result<ResizeAttributes> ParseResize(const OpInfo& info) {
  ResizeAttributes out;
  const std::string mode = info.StringOr("mode", "nearest");
  if (mode == "cubic") {
    out.interpolation.filter = kernels::Filter::kCubic;
  } else if (mode != "nearest" && mode != "linear" && mode != "bilinear") {
    return InvalidArgument("attribute mode is '", mode, "', which ONNX does not define");
  }
  out.nearest = mode == "nearest";
  if (info.op_type() == "Upsample" || info.since_version() < 11) {
    if (mode == "cubic") return InvalidArgument("mode cubic came with Resize version 11");
    out.coordinates = CoordinateMode::kAsymmetric;
    return out;
  }
  CUDAEP_ASSIGN_OR_RETURN(out.coordinates, Find(kCoordinateModes, "coordinate_transformation_mode",
                                                info.StringOr("coordinate_transformation_mode", "half_pixel")));
  CUDAEP_ASSIGN_OR_RETURN(out.nearest_mode,
                          Find(kNearestModes, "nearest_mode", info.StringOr("nearest_mode", "round_prefer_floor")));
  CUDAEP_ASSIGN_OR_RETURN(
      out.policy, Find(kPolicies, "keep_aspect_ratio_policy", info.StringOr("keep_aspect_ratio_policy", "stretch")));
  out.extrapolation = info.FloatOr("extrapolation_value", 0.0f);
  out.axes = info.IntsOr("axes", {});
  out.interpolation.cubic_coefficient = info.FloatOr("cubic_coeff_a", -0.75f);
  out.interpolation.exclude_outside = info.BoolOr("exclude_outside", false);
  out.interpolation.antialias = info.BoolOr("antialias", false) && !out.nearest;
  return out;
}

Result<std::vector<ResizeAxis>> CombineAxes(const ResizeAttributes& attributes, Dims x, const ResizeInputs& inputs) {
  const int rank = static_cast<int>(x.size());
  CUDAEP_ASSIGN_OR_RETURN(const std::vector<int> chosen, AxesOf(attributes, rank));
  const bool by_size = !inputs.sizes.empty();
  if (by_size == !inputs.scales.empty() && rank != 0) {
    return InvalidArgument("exactly one of the inputs scales and sizes must be given");
  }
  CUDAEP_RETURN_IF_ERROR(by_size ? CheckLength("sizes", inputs.sizes.size(), chosen.size())
                                 : CheckLength("scales", inputs.scales.size(), chosen.size()));
  const bool crops = attributes.coordinates == CoordinateMode::kTfCropAndResize;
  if (crops) CUDAEP_RETURN_IF_ERROR(CheckLength("roi", inputs.roi.size(), 2 * chosen.size()));

  std::vector<ResizeAxis> axes(x.size());
  for (size_t d = 0; d < axes.size(); ++d) {
    axes[d].in = axes[d].out = x[d];
    axes[d].length = static_cast<float>(x[d]);
  }
  for (size_t i = 0; i < chosen.size(); ++i) {
    ResizeAxis& axis = axes[static_cast<size_t>(chosen[i])];
    if (by_size) {
      axis.out = inputs.sizes[i];
      if (axis.out < 0) return InvalidArgument("input sizes ", Dims(inputs.sizes), " has a negative value");
      axis.length = static_cast<float>(axis.out);
      axis.scale = axis.in == 0 ? 1.0f : axis.length / static_cast<float>(axis.in);
    } else {
      axis.scale = inputs.scales[i];
      axis.length = axis.scale * static_cast<float>(axis.in);
      CUDAEP_ASSIGN_OR_RETURN(axis.out, Scaled(axis.in, axis.scale, chosen[i]));
    }
    if (!crops) continue;
    axis.roi_begin = inputs.roi[i], axis.roi_end = inputs.roi[chosen.size() + i];
    if (!(std::abs(axis.roi_begin) < kLargestRoi) || !(std::abs(axis.roi_end) < kLargestRoi)) {
      return InvalidArgument("input roi has ", axis.roi_begin, " to ", axis.roi_end, " for axis ", chosen[i]);
    }
  }
  if (by_size && attributes.policy != AspectPolicy::kStretch) {
    CUDAEP_RETURN_IF_ERROR(KeepAspect(attributes.policy, chosen, &axes));
  }
  for (const ResizeAxis& axis : axes) {
    if (axis.in == 0 && axis.out != 0) return InvalidArgument("input X ", x, " is empty and cannot be enlarged");
  }
  return axes;
}

Result<kernels::ResizeShape> PlaceResize(const ResizeAttributes& attributes, const std::vector<ResizeAxis>& axes) {
  kernels::ResizeShape shape;
  shape.extrapolate = attributes.coordinates == CoordinateMode::kTfCropAndResize;
  shape.extrapolation = attributes.extrapolation;
  int rank = 0;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const ResizeDim dim = PlaceDim(attributes, *axis);
    if (!dim.scaled && dim.in == 1) continue;
    if (!dim.scaled && rank > 0 && !shape.dim[rank - 1].scaled) {
      shape.dim[rank - 1].in *= dim.in;
      shape.dim[rank - 1].out *= dim.out;
      continue;
    }
    if (dim.shrink * kWidestFilter < 1.0f) return NotSupported("antialias at a scale of ", axis->scale);
    if (rank == kernels::kMaxResizeRank) {
      return NotSupported("resize of more than ", kernels::kMaxResizeRank, " dimensions");
    }
    shape.dim[rank++] = dim;
  }
  shape.rank = std::max(rank, 1);
  return shape;
}

}  // namespace cudaep::ops
