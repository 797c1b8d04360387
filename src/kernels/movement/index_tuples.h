// Tuples of indices in device memory that name rows of a tensor.
#pragma once

#include <cstdint>

#include "core/dims.h"
#include "kernels/movement/gather.h"

namespace cudaep::kernels {

inline constexpr int kMaxTupleLength = 16;

// Index k of a tuple counts positions on an axis of `size[k]`, `stride[k]` rows apart; negative ones count from the
// end.
struct IndexTuples {
  GatherIndices indices;
  int length = 0;
  int64_t size[kMaxTupleLength] = {};
  int64_t stride[kMaxTupleLength] = {};
};

// Tuples for the leading dimensions `dims`; kNotSupported for more than kMaxTupleLength of them.
Result<IndexTuples> MakeIndexTuples(Dims dims);

}  // namespace cudaep::kernels
