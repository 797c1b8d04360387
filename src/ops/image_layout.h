// Images with their channels first, [batch, channels, spatial...], or last, [batch, spatial..., channels]: the domain
// of the host for the latter has the same operators, and the same rows.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/shape.h"
#include "ops/registry.h"

namespace cudaep::ops {

// Dimensions of an image that lies channels `last` or first, named channels first; and the way back. Fewer than three
// are left as they are.
inline Shape ChannelsFirst(Dims image, bool last) {
  Shape dims(image);
  if (last && dims.rank() > 2) {
    std::rotate(dims.data() + 1, dims.data() + dims.rank() - 1, dims.data() + dims.rank());
  }
  return dims;
}
inline Shape InLayout(Dims channels_first, bool last) {
  Shape dims(channels_first);
  if (last && dims.rank() > 2) std::rotate(dims.data() + 1, dims.data() + 2, dims.data() + dims.rank());
  return dims;
}

// Types that the host's channels-last schemas lack: nodes with such an input stay as they are.
inline constexpr DataTypeSet kChannelsFirstOnly{DataType::kBFloat16};

// Rows of ONNX operators, and the same for channels-last images. A node is rewritten to the latter after it was claimed
// as the former, and would have no kernel if one of its versions or types were missing. The host may know fewer
// versions.
inline std::vector<KernelRow> InBothLayouts(std::vector<KernelRow> rows) {
  const size_t count = rows.size();
  for (size_t i = 0; i < count; ++i) {
    KernelRow last = rows[i];
    last.domain = kNhwcDomain;
    for (TypeConstraint& constraint : last.types) constraint.types = constraint.types - kChannelsFirstOnly;
    last.in_place.clear();
    rows.push_back(std::move(last));
  }
  return rows;
}

}  // namespace cudaep::ops
