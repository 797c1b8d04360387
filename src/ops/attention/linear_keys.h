// The sizes of keys that linear attention takes, when a node is created and when it runs.
#pragma once

#include "kernels/attention/linear_attention.h"
#include "ops/op_info.h"

namespace cudaep::ops {

inline Status CheckLinearKeySize(int64_t key_size) {
  if (key_size <= kernels::kMostLinearKeySize) return Status::Ok();
  return NotSupported("keys of ", key_size, " elements, more than ", kernels::kMostLinearKeySize);
}

// Of `heads` keys side by side in the last dimension of an input, where the model states it, so that a node that cannot
// run is not claimed. What is unknown is fine.
inline Status CheckStatedLinearKeys(const OpInfo& info, int input, int64_t heads) {
  const std::optional<Shape> dims = info.input_dims(input);
  if (!dims || dims->rank() == 0) return Status::Ok();
  const int64_t last = (*dims)[dims->rank() - 1];
  return last == kUnknownDim ? Status::Ok() : CheckLinearKeySize(last / heads);
}

}  // namespace cudaep::ops
