// Integers that an operator reads from an input in host memory: shapes, axes, starts, split sizes.
#pragma once

#include <string_view>
#include <vector>

#include "core/status.h"
#include "ops/tensor_view.h"

namespace cudaep::ops {

// The elements of an int32 or int64 tensor of rank 0 or 1; other tensors are an error that names `what`.
Result<std::vector<int64_t>> HostInts(const TensorView& input, std::string_view what);

}  // namespace cudaep::ops
