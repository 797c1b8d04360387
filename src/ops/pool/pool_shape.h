// From a window over an input to what the pooling kernels take. Pure.
#pragma once

#include "kernels/pool/pool.h"
#include "ops/conv/window.h"

namespace cudaep::ops {

// Refuses planes of more than 2^31 elements, those of the output with `channels` at each position.
Result<kernels::PoolShape> PoolShapeOf(const Window& window, DataType type, int64_t planes, int64_t channels = 1);

}  // namespace cudaep::ops
