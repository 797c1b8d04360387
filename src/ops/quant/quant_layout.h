// How scale and zero point of a quantized tensor belong to its elements: one for the tensor, one for each place along
// an axis, or one for each block along it.
#pragma once

#include "kernels/quant/linear.h"
#include "ops/tensor_view.h"

namespace cudaep::ops {

// `block` 0: no blocks. `zero_point` may be absent; else it has the shape of the scale. A single scale serves the whole
// tensor, whatever the axis.
Result<kernels::QuantScales> QuantLayout(Dims x, const TensorView& scale, const TensorView& zero_point, int64_t axis,
                                         int64_t block);

}  // namespace cudaep::ops
