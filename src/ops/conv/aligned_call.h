// Calls into the vendor library, or of a kernel that asks for the same alignment, with tensors of any.
#pragma once

#include <functional>

#include "lib/dnn.h"
#include "runtime/stream_context.h"

namespace cudaep::ops {

// The tensors that are used where they lie.
struct DirectTensors {
  bool x = true, w = true, bias = true, residual = true, y = true;
};

// Calls with `at`, in which those of the direct tensors that are aligned less than the library wants are copies,
// in memory of this call alone (ops/call_memory.h); the result is copied back.
Status CallWithCopies(const dnn::ConvProblem& problem, StreamContext& stream, dnn::ConvPointers at,
                      const DirectTensors& direct, const std::function<Status(const dnn::ConvPointers&)>& call);

// The same, at no cost where nothing is to be copied.
template <class Call>
Status CallAligned(const dnn::ConvProblem& problem, StreamContext& stream, const dnn::ConvPointers& at,
                   const DirectTensors& direct, const Call& call) {
  const auto bits = [](bool is_direct, const void* tensor) {
    return is_direct ? reinterpret_cast<uintptr_t>(tensor) : 0;
  };
  const uintptr_t all = bits(direct.x, at.x) | bits(direct.w, at.w) | bits(direct.bias, at.bias) |
                        bits(direct.residual, at.residual) | bits(direct.y, at.y);
  if (all % dnn::kTensorAlignment == 0) [[likely]]
    return call(at);
  return CallWithCopies(problem, stream, at, direct, call);
}

}  // namespace cudaep::ops
