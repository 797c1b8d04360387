// A planned matrix product for operators: by the library where it can, by the project's own kernel otherwise.
//
// The own kernel takes integers, an inner size of 0, and what the library refuses or would be needed for where it is
// missing. A bias that the library cannot fuse is added by an element-wise kernel.
// Threads: immutable after Make.
#pragma once

#include <memory>

#include "core/status.h"
#include "kernels/elementwise/broadcast.h"
#include "lib/blas.h"
#include "runtime/stream_context.h"

namespace cudaep::ops {

class MatrixProduct {
 public:
  // `problem.type` may also be an integer type. All sizes but k are positive. The workspace stays below the limit given
  // and, unless the problem is deterministic, below what the stream may still take.
  static Result<MatrixProduct> Make(StreamContext& stream, const blas::GemmProblem& problem,
                                    size_t workspace_limit_bytes = SIZE_MAX);

  size_t workspace_bytes() const { return library_ == nullptr ? 0 : library_->workspace_bytes(); }

  // `at.workspace` has at least workspace_bytes().
  Status Enqueue(StreamContext& stream, const blas::GemmPointers& at) const;

 private:
  Status EnqueueOwn(StreamContext& stream, const blas::GemmPointers& at) const;

  blas::GemmProblem problem_;
  std::unique_ptr<const blas::GemmPlan> library_;  // null: own kernel
  kernels::Broadcast<2> separate_bias_;            // used when the library leaves the bias out
};

}  // namespace cudaep::ops
