// Sliding windows of convolutions and pools: their attributes, and where they lie over an input. Pure.
#pragma once

#include <vector>

#include "core/shape.h"
#include "lib/dnn.h"
#include "ops/op_info.h"

namespace cudaep::ops {

using dnn::kMaxSpatialRank;
using dnn::Spatial;

enum class AutoPad : uint8_t { kNotSet, kSameUpper, kSameLower, kValid };

// As the node has them: an empty list stands for the default of every dimension.
struct WindowAttributes {
  AutoPad auto_pad = AutoPad::kNotSet;
  std::vector<int64_t> kernel, strides, dilations, pads;
  bool ceil_mode = false;
};

// Refuses unknown names and values out of range; lengths are checked against a rank by PlaceWindow.
Result<WindowAttributes> ParseWindow(const OpInfo& info);

// A window of `rank` spatial dimensions at every stride, over `in` plus padding, gives `out` positions.
struct Window {
  int rank = 0;
  Spatial in{}, out{}, kernel{}, stride{}, dilation{}, pad_begin{}, pad_end{};

  // Elements that the window reaches over, holes included.
  int64_t span(int d) const { return (kernel[d] - 1) * dilation[d] + 1; }
};

// Everything but `pad_begin`, `pad_end` and `out`: `in` and `kernel` are the spatial dimensions alone. A kernel of the
// node's attributes must be that one.
Result<Window> MakeWindow(const WindowAttributes& attributes, Dims in, Dims kernel);

// MakeWindow, and the padding and output sizes of a convolution or pool.
Result<Window> PlaceWindow(const WindowAttributes& attributes, Dims in, Dims kernel);

}  // namespace cudaep::ops
