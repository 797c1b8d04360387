// Dimensions as functions take them: a view on somebody's list.
// core/shape.h has a list of one's own.
#pragma once

#include <cstdint>
#include <span>

#include "core/status.h"

namespace cudaep {

using Dims = std::span<const int64_t>;

// In place of a dimension that is not known yet; only where a declaration says that it may occur.
inline constexpr int64_t kUnknownDim = -1;

// Product of the dimensions; 1 for rank 0. Fails on a negative dimension or a product over int64.
Result<int64_t> CheckedElementCount(Dims dims);

// The same for shapes that were checked when they were made.
inline int64_t ElementCount(Dims dims) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  return count;
}

bool SameDims(Dims a, Dims b);

}  // namespace cudaep
