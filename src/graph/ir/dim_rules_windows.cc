// Convolutions and pools: as many windows as fit. Images of another size.
#include <cmath>

#include "core/checked_math.h"
#include "graph/ir/attributes.h"
#include "graph/ir/constants.h"
#include "graph/ir/dim_rules.h"
#include "ops/registry.h"

namespace cudaep::graph::ir {
namespace {

int64_t At(const std::vector<int64_t>* values, size_t index, int64_t fallback) {
  return values != nullptr && index < values->size() ? (*values)[index] : fallback;
}

}  // namespace

Dim DimRules::WindowsOver(const Node& node, const Dim& size, size_t axis, size_t rank, int64_t kernel) {
  const auto* const pads = FindAttribute<std::vector<int64_t>>(node, "pads");
  const int64_t stride = At(FindAttribute<std::vector<int64_t>>(node, "strides"), axis, 1);
  const int64_t dilation = At(FindAttribute<std::vector<int64_t>>(node, "dilations"), axis, 1);
  const auto* const auto_pad = FindAttribute<std::string>(node, "auto_pad");
  if (stride < 1 || kernel < 1 || (size.known() && size.size < 1)) return {};
  const bool is_explicit = auto_pad == nullptr || auto_pad->empty() || *auto_pad == "NOTSET";
  if (!is_explicit && *auto_pad != "VALID") {  // one window for each stride that has begun
    return Symbols::DimOf(symbols_.Floor(ElementOf(size), stride - 1, stride));
  }
  // The last window begins so many elements behind the first one, and `size` in front of it.
  const int64_t ahead = is_explicit ? At(pads, axis, 0) : 0;
  const int64_t padding = ahead + (is_explicit ? At(pads, axis + rank, 0) : 0);
  const int64_t offset = padding - ((kernel - 1) * dilation + 1);
  if (stride == 1 && offset == -1) return size;
  const bool rounds_up = IntAttribute(node, "ceil_mode", 0) != 0;
  if (size.known()) {
    if (size.size + offset < 0) return {};
    const int64_t last = rounds_up ? CeilDiv(size.size + offset, stride) : (size.size + offset) / stride;
    // One that is cut off begins in front of the padding at the end.
    return {.size = rounds_up && last * stride >= size.size + ahead ? last : last + 1};
  }
  const Element element = ElementOf(size);
  return Symbols::DimOf(rounds_up ? symbols_.Named("windows, rounded up", element, offset, stride, ahead)
                                  : symbols_.Floor(element, offset + stride, stride, true));
}

MaybeDims DimRules::Windowed(const Node& node, size_t filters) {
  const MaybeDims& x = Stated(node, 0);
  if (!x || x->size() < 3) return std::nullopt;
  const bool is_conv = filters > 0;
  const MaybeDims& w = Stated(node, filters);
  const auto* const kernel = FindAttribute<std::vector<int64_t>>(node, "kernel_shape");
  if (is_conv && (!w || w->size() != x->size())) return std::nullopt;
  DimList dims{(*x)[0], is_conv ? (*w)[0] : (*x)[1]};
  const size_t rank = x->size() - 2;
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t taps = is_conv ? (*w)[axis + 2].size : At(kernel, axis, kUnknownDim);
    dims.push_back(WindowsOver(node, (*x)[axis + 2], axis, rank, taps));
  }
  return dims;
}

MaybeDims DimRules::Spread(const Node& node) const {
  const MaybeDims &x = Stated(node, 0), &w = Stated(node, 1);
  if (!x || !w || x->size() < 3 || w->size() != x->size()) return std::nullopt;
  DimList dims(x->size());
  dims[0] = (*x)[0];
  dims[1] = Symbols::DimOf(Times(ElementOf((*w)[1]), Number(IntAttribute(node, "group", 1))));
  return dims;
}

MaybeDims DimRules::Resized(const Node& node) const {
  const MaybeDims& x = Stated(node, 0);
  const auto* const mode = FindAttribute<std::string>(node, "coordinate_transformation_mode");
  const bool crops = mode != nullptr && *mode == "tf_crop_and_resize";
  if (!x || node.inputs.size() < 3 || crops || node.attributes.contains("axes")) return std::nullopt;
  const auto* const policy = FindAttribute<std::string>(node, "keep_aspect_ratio_policy");
  const bool stretches = policy == nullptr || *policy == "stretch";
  const Elements* const sizes = node.inputs.size() > 3 ? ElementsOf(node.inputs[3]) : nullptr;
  DimList dims;
  if (sizes != nullptr && !sizes->empty()) {
    if (!stretches || sizes->size() != x->size()) return std::nullopt;
    return DimsOf(*sizes);
  }
  const auto scales = NumbersOf(graph_, node.inputs[2]);
  if (!scales || scales->size() != x->size()) return std::nullopt;
  for (size_t i = 0; i < x->size(); ++i) {
    const double scale = (*scales)[i];
    const bool is_whole = scale >= 1 && scale <= 64 && std::floor(scale) == scale;
    dims.push_back(is_whole ? Symbols::DimOf(Times(ElementOf((*x)[i]), Number(static_cast<int64_t>(scale)))) : Dim{});
  }
  return dims;
}

MaybeDims DimRules::Aligned(const Node& node) const {
  const MaybeDims &x = Stated(node, 0), &regions = Stated(node, 1);
  if (!x || !regions || x->size() != 4 || regions->size() != 2) return std::nullopt;
  return DimList{(*regions)[0], (*x)[1], SizeAttribute(node, "output_height", 1),
                 SizeAttribute(node, "output_width", 1)};
}

MaybeDims DimRules::Pooled(const Node& node) const {
  const MaybeDims& x = Stated(node, 0);
  if (!x || x->size() < 3) return std::nullopt;
  DimList dims(x->size(), Dim{.size = 1});
  dims[0] = (*x)[0];
  dims[1] = (*x)[1];
  return dims;
}

}  // namespace cudaep::graph::ir
