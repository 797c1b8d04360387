// Matrix multiplication by a vendor library: cuBLASLt on a GPU, Eigen on the simulated device.
//
// A plan is immutable and may be used by many threads and streams; a handle belongs to one stream at a time.
// Errors: kLibraryMissing when the library cannot be loaded (the message names file, version and places),
// kNotSupported when the library has no algorithm for the problem within the workspace limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::blas {

enum class Epilogue : uint8_t { kNone, kBias };

// C = alpha * op(A) * op(B) + beta * C (+ bias), all row-major, `batch` times at fixed strides.
// op(A) is m x k, op(B) is k x n, C is m x n; the bias has n elements and is added to every row.
struct GemmProblem {
  DataType type = DataType::kFloat;  // of A, B, C and bias: float, float16, bfloat16 or double
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;  // elements between rows as stored (before op)
  int64_t batch = 1;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements between matrices; 0 shares one matrix
  float alpha = 1.0f, beta = 0.0f;
  Epilogue epilogue = Epilogue::kNone;
  bool allow_tf32 = true;      // fp32 only; 16-bit types always accumulate in fp32
  bool deterministic = false;  // the same bits from the same plan, in every call

  bool operator==(const GemmProblem&) const = default;
};

struct GemmPointers {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* bias = nullptr;
  void* workspace = nullptr;  // at least the plan's bytes, 256-byte aligned
};

class Handle {
 public:
  virtual ~Handle() = default;
};

class GemmPlan {
 public:
  virtual ~GemmPlan() = default;
  size_t workspace_bytes() const { return workspace_bytes_; }
  // The library could not fuse the bias: Enqueue leaves it out and the caller adds it to C with a kernel of its own.
  bool needs_separate_bias() const { return needs_separate_bias_; }

 protected:
  size_t workspace_bytes_ = 0;
  bool needs_separate_bias_ = false;
};

// Library name and version, e.g. "cuBLASLt 13.1.0"; loads the library when it was not loaded yet.
Result<std::string> Version();

// For the current device.
Result<std::unique_ptr<Handle>> CreateHandle();

Result<std::unique_ptr<const GemmPlan>> MakePlan(Handle& handle, const GemmProblem& problem,
                                                 size_t workspace_limit_bytes);

// Launches only: no allocation, no lock. Sizes of 0 are the caller's to handle. Works at any alignment of the elements'
// size; 16 bytes or more let the library use its fast kernels.
Status Enqueue(Handle& handle, const GemmPlan& plan, const GemmPointers& pointers, device::Stream stream);

}  // namespace cudaep::blas
