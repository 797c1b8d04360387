// From a window over an input to what the pooling kernels take. Pure.
#pragma once

#include "kernels/pool/pool.h"
#include "ops/conv/window.h"

namespace cudaep::ops {

// Of an input with the dimensions `x`. Refuses planes of more than 2^31 positions, or elements of the output.
Result<kernels::PoolShape> PoolShapeOf(const Window& window, DataType type, Dims x, bool channels_last);

}  // namespace cudaep::ops
