// Calls into the vendor library with tensors of any alignment.
#pragma once

#include <functional>

#include "lib/dnn.h"
#include "runtime/stream_context.h"

namespace cudaep::ops {

// The tensors that the library uses where they lie.
struct DirectTensors {
  bool x = true, w = true, bias = true, residual = true, y = true;
};

// Calls with `at`, in which those of the direct tensors that the library would refuse for their alignment are copies,
// in memory of this call alone (ops/call_memory.h); the result is copied back.
Status CallAligned(const dnn::ConvProblem& problem, StreamContext& stream, dnn::ConvPointers at,
                   const DirectTensors& direct, const std::function<Status(const dnn::ConvPointers&)>& call);

}  // namespace cudaep::ops
