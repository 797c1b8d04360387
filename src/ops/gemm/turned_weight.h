// Constant weights [k, n] of products that are packed with their columns side by side, as [n, k].
#pragma once

#include "kernels/movement/transpose.h"
#include "ops/operator.h"

namespace cudaep::ops {

// By what Operator::Pack is given.
inline Status TurnWeight(const TensorView& weight, void* packed, StreamContext& runtime) {
  const size_t bytes = SizeOf(weight.type);
  CUDAEP_ASSIGN_OR_RETURN(const auto plan, kernels::PlanTranspose(weight.dims(), Shape{1, 0}, bytes));
  return kernels::LaunchTranspose(plan, weight.data, packed, runtime.stream());
}

// What Operator::PackedBytes says of a weight of codes: it is packed where its columns can be read 16 bytes at a time.
inline size_t TurnedCodeBytes(const TensorView& weight) {
  return weight.rank == 2 && weight.dim[0] % 16 == 0 ? weight.bytes() : 0;
}

}  // namespace cudaep::ops
