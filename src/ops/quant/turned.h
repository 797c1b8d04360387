// Tensors of codes whose axes lie in another order than a product has them.
#pragma once

#include <vector>

#include "core/shape.h"

namespace cudaep::ops {

// Dimensions, or strides, in the order that Transpose's `perm` gives them.
inline Shape Turned(Dims dims, const std::vector<int64_t>& perm) {
  Shape turned(dims);
  for (size_t i = 0; i < perm.size(); ++i) turned[static_cast<int>(i)] = dims[static_cast<size_t>(perm[i])];
  return turned;
}

}  // namespace cudaep::ops
