#include "ops/quant/quant_layout.h"

#include <algorithm>

#include "core/checked_math.h"

namespace cudaep::ops {

Result<kernels::QuantScales> QuantLayout(Dims x, const TensorView& scale, const TensorView& zero_point, int64_t axis,
                                         int64_t block) {
  const Dims scales = scale.dims();
  const auto rank = static_cast<int64_t>(x.size());
  if (zero_point.present() && !std::ranges::equal(zero_point.dims(), scales) &&
      !(zero_point.elems() == 1 && scale.elems() == 1)) {
    return InvalidArgument("zero point ", zero_point.dims(), " has not the shape of the scale ", scales);
  }
  // Hosts move a Transpose or Reshape in front of a node by giving its single scale more dimensions of 1.
  if (scale.rank == 0 || (scale.elems() == 1 && block == 0)) return kernels::QuantScales{};
  if (axis < -rank || axis >= rank) return InvalidArgument("axis ", axis, " of an input with shape ", x);
  const auto at = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  kernels::QuantScales layout{.axis = x[at], .inner = ElementCount(x.subspan(at + 1))};
  if (block == 0) {
    if (scale.rank != 1 || scales[0] != x[at]) {
      return InvalidArgument("scale ", scales, " has not one element for each place on axis ", at, " of ", x);
    }
    layout.block_stride = 1;
    return layout;
  }
  Shape wanted(x);
  wanted[static_cast<int>(at)] = CeilDiv(x[at], block);
  if (!std::ranges::equal(wanted.dims(), scales)) {
    return InvalidArgument("scale ", scales, " of blocks of ", block, " on axis ", at, " of ", x, " should be ",
                           wanted.dims());
  }
  layout.block = block;
  layout.block_stride = layout.inner;
  layout.outer_stride = layout.inner * scales[at];
  layout.inner_stride = 1;
  return layout;
}

}  // namespace cudaep::ops
