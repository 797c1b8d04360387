// A constant weight in the form that its operator wants, in memory of the session's.
#pragma once

#include <memory>

#include "ops/operator.h"

namespace cudaep::ops {

// `bytes` is what PackedBytes said of the weight, and not 0. Null where the operator takes the weight as it is after
// all, or there is no memory, which is logged. The packing is queued on the stream. Errors and memory carry `label`,
// which is interned.
Result<std::shared_ptr<void>> PackWeight(const Operator& op, int index, const TensorView& weight, size_t bytes,
                                         const char* label, StreamContext& stream);

}  // namespace cudaep::ops
