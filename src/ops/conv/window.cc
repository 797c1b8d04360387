#include "ops/conv/window.h"

#include <algorithm>

#include "core/checked_math.h"

namespace cudaep::ops {
namespace {

// Bounds that no real model comes near; within them products of two values and sums of a few fit 64 bits.
constexpr int64_t kLargestAttribute = int64_t{1} << 30;
constexpr int64_t kLargestExtent = int64_t{1} << 40;

Status CheckRange(const char* name, const std::vector<int64_t>& values, int64_t least) {
  for (int64_t value : values) {
    if (value < least || value > kLargestAttribute) {
      return InvalidArgument("attribute ", name, " ", Dims(values), " holds ", value, ", which is not in [", least,
                             ", 2^30]");
    }
  }
  return Status::Ok();
}

Status CheckLength(const char* name, const std::vector<int64_t>& values, size_t wanted) {
  if (values.empty() || values.size() == wanted) return Status::Ok();
  return InvalidArgument("attribute ", name, " has ", values.size(), " values, the input's spatial dimensions need ",
                         wanted);
}

int64_t ValueAt(const std::vector<int64_t>& values, size_t i, int64_t fallback) {
  return values.empty() ? fallback : values[i];
}

// Positions along one dimension, given its padding.
Result<int64_t> CountPositions(const Window& w, int d, bool ceil_mode) {
  if (w.in[d] == 0) return int64_t{0};
  const int64_t room = w.in[d] + w.pad_begin[d] + w.pad_end[d] - w.span(d);
  if (room < 0) {
    return InvalidArgument("the window reaches over ", w.span(d), " elements of spatial dimension ", d,
                           ", which has only ", w.in[d], " and padding ", w.pad_begin[d], '+', w.pad_end[d]);
  }
  if (!ceil_mode) return room / w.stride[d] + 1;
  const int64_t count = CeilDiv(room, w.stride[d]) + 1;
  // The last window starts inside the input or its leading padding.
  return (count - 1) * w.stride[d] >= w.in[d] + w.pad_begin[d] ? count - 1 : count;
}

// Enough padding for one position at every stride.
void PadToSame(bool upper, Window* w, int d) {
  const int64_t positions = CeilDiv(w->in[d], w->stride[d]);
  const int64_t total = std::max<int64_t>(0, (positions - 1) * w->stride[d] + w->span(d) - w->in[d]);
  w->pad_begin[d] = upper ? total / 2 : total - total / 2;
  w->pad_end[d] = total - w->pad_begin[d];
}

}  // namespace

Result<WindowAttributes> ParseWindow(const OpInfo& info) {
  WindowAttributes out;
  const std::string auto_pad = info.StringOr("auto_pad", "NOTSET");
  if (auto_pad == "SAME_UPPER") {
    out.auto_pad = AutoPad::kSameUpper;
  } else if (auto_pad == "SAME_LOWER") {
    out.auto_pad = AutoPad::kSameLower;
  } else if (auto_pad == "VALID") {
    out.auto_pad = AutoPad::kValid;
  } else if (auto_pad != "NOTSET" && !auto_pad.empty()) {
    return InvalidArgument("attribute auto_pad is '", auto_pad, "', which ONNX does not define");
  }
  out.kernel = info.IntsOr("kernel_shape", {});
  out.strides = info.IntsOr("strides", {});
  out.dilations = info.IntsOr("dilations", {});
  out.pads = info.IntsOr("pads", {});
  out.ceil_mode = info.BoolOr("ceil_mode", false);
  CUDAEP_RETURN_IF_ERROR(CheckRange("kernel_shape", out.kernel, 1));
  CUDAEP_RETURN_IF_ERROR(CheckRange("strides", out.strides, 1));
  CUDAEP_RETURN_IF_ERROR(CheckRange("dilations", out.dilations, 1));
  CUDAEP_RETURN_IF_ERROR(CheckRange("pads", out.pads, 0));
  return out;
}

Result<Window> MakeWindow(const WindowAttributes& attributes, Dims in, Dims kernel) {
  const size_t rank = in.size();
  if (rank < 1 || rank > kMaxSpatialRank) {
    return NotSupported(rank, " spatial dimensions; 1 to ", kMaxSpatialRank, " are offered");
  }
  if (kernel.size() != rank) {
    return InvalidArgument("the kernel ", kernel, " and the input's spatial dimensions ", in, " differ in rank");
  }
  CUDAEP_RETURN_IF_ERROR(CheckLength("kernel_shape", attributes.kernel, rank));
  CUDAEP_RETURN_IF_ERROR(CheckLength("strides", attributes.strides, rank));
  CUDAEP_RETURN_IF_ERROR(CheckLength("dilations", attributes.dilations, rank));
  CUDAEP_RETURN_IF_ERROR(CheckLength("pads", attributes.pads, 2 * rank));
  if (!attributes.kernel.empty() && !SameDims(attributes.kernel, kernel)) {
    return InvalidArgument("attribute kernel_shape is ", Dims(attributes.kernel), ", the weights have ", kernel);
  }
  Window w;
  w.rank = static_cast<int>(rank);
  for (size_t d = 0; d < rank; ++d) {
    if (in[d] > kLargestExtent || kernel[d] > kLargestAttribute || kernel[d] < 1) {
      return InvalidArgument("input ", in, " and kernel ", kernel, " have sizes out of range");
    }
    w.in[d] = in[d];
    w.kernel[d] = kernel[d];
    w.stride[d] = ValueAt(attributes.strides, d, 1);
    w.dilation[d] = ValueAt(attributes.dilations, d, 1);
  }
  return w;
}

Result<Window> PlaceWindow(const WindowAttributes& attributes, Dims in, Dims kernel) {
  CUDAEP_ASSIGN_OR_RETURN(Window w, MakeWindow(attributes, in, kernel));
  for (int d = 0; d < w.rank; ++d) {
    const size_t i = static_cast<size_t>(d);
    if (attributes.auto_pad == AutoPad::kNotSet) {
      w.pad_begin[i] = ValueAt(attributes.pads, i, 0);
      w.pad_end[i] = ValueAt(attributes.pads, i + in.size(), 0);
    } else if (attributes.auto_pad != AutoPad::kValid) {
      PadToSame(attributes.auto_pad == AutoPad::kSameUpper, &w, d);
    }
    CUDAEP_ASSIGN_OR_RETURN(w.out[i], CountPositions(w, d, attributes.ceil_mode));
  }
  return w;
}

}  // namespace cudaep::ops
