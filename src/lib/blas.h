// Matrix multiplication by a vendor library: cuBLASLt on a GPU, Eigen on the simulated device.
//
// A plan is immutable and may be used by many threads and streams; a handle belongs to one stream at a time.
// Errors: kLibraryMissing when the library cannot be loaded (the message names file, version and places),
// kNotSupported when the library has no algorithm for the problem within the workspace limit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "lib/plan.h"

namespace cudaep::blas {

inline constexpr int kBatchRank = 3;

// One of the dimensions over which a product repeats. Strides are elements between matrices; 0 shares one matrix.
struct BatchDim {
  int64_t size = 1;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  bool operator==(const BatchDim&) const = default;
};

// C = activation(alpha * op(A) * op(B) + bias + beta * residual), all row-major, for every index of `batch`.
// op(A) is m x k, op(B) is k x n, C and the residual are m x n and lie alike; the bias has n elements, one a column.
struct GemmProblem {
  lib::MixedTypes types;  // all of one float type, or int8, int8 to int32
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;         // elements between rows as stored (before op)
  std::array<BatchDim, kBatchRank> batch{};  // in any order; size 1 where unused
  Epilogue epilogue;
  bool allow_tf32 = true;      // fp32 only; 16-bit types always accumulate in fp32
  bool deterministic = false;  // the same bits from the same plan, in every call, wherever the tensors lie

  int64_t batches() const { return batch[0].size * batch[1].size * batch[2].size; }
  bool operator==(const GemmProblem&) const = default;
};

struct GemmPointers {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;  // may be the residual
  const void* bias = nullptr;
  const void* residual = nullptr;
  void* workspace = nullptr;  // at least the plan's bytes, 256-byte aligned
};

class Handle {
 public:
  virtual ~Handle() = default;
};

class GemmPlan : public lib::Plan {
 public:
  // Bytes that the tensors of a call must be aligned to, besides their elements' size: 1, or more for a deterministic
  // plan, whose algorithm may not depend on addresses.
  size_t alignment() const { return alignment_; }

 protected:
  size_t alignment_ = 1;
};

// Library name and version, e.g. "cuBLASLt 13.1.0"; loads the library when it was not loaded yet.
Result<std::string> Version();

// For the current device.
Result<std::unique_ptr<Handle>> CreateHandle();

// Algorithms that can run the problem within the limit, in the library's order, at most `most`; each is a `choice` for
// MakePlan. None when the library has none.
Result<std::vector<std::string>> Candidates(Handle& handle, const GemmProblem& problem, size_t workspace_limit_bytes,
                                            size_t most);

// By the library's first algorithm, or by the one that `choice` (of Candidates or of a plan) names: kNotSupported where
// that cannot run the problem, kInvalidArgument for text that names none.
Result<std::unique_ptr<const GemmPlan>> MakePlan(Handle& handle, const GemmProblem& problem,
                                                 size_t workspace_limit_bytes, const std::string& choice = {});

// Whether a plan also runs `problem`, which differs from the plan's in a smaller m alone: products of many lengths
// share one plan.
bool Covers(Handle& handle, const GemmPlan& plan, const GemmProblem& problem);

// Launches only, `m` rows (at most the plan's): no allocation, no lock. Sizes of 0 are the caller's to handle. Works at
// any alignment that the plan allows; 16 bytes or more let the library use its fast kernels. Unless the plan is
// deterministic, the first call with pointers aligned to fewer than 256 bytes looks up an algorithm for them, which
// takes some microseconds and memory. kNotSupported where there is none, and for pointers that the plan does not allow:
// nothing was launched then.
Status Enqueue(Handle& handle, const GemmPlan& plan, int64_t m, const GemmPointers& pointers, device::Stream stream);

}  // namespace cudaep::blas
