// A matrix product as cuBLASLt's descriptors: values that are copied to the stack for each call.
//
// The library is column-major: a row-major C is its C^T = op(B)^T op(A)^T, so the operands swap places, nothing is
// transposed in memory, and a bias along n runs along the library's rows, which it can fuse.
#pragma once

#include "lib/blas.h"
#include "lib/cuda/cublaslt_api.h"

namespace cudaep::blas {

// How much of an epilogue one call does, from most to least.
enum class LtForm : uint8_t { kAll, kNoActivation, kSumOnly };
inline constexpr LtForm kLtForms[] = {LtForm::kAll, LtForm::kNoActivation, LtForm::kSumOnly};

// Whether the library has a name for this much, and it differs from what a later form does.
bool IsOffered(const GemmProblem& problem, LtForm form);
// What the caller has to do after a call of this form.
Epilogue RemainingOf(const GemmProblem& problem, LtForm form);

struct LtDescriptors {
  cublasLtMatmulDescOpaque_t operation{};
  cublasLtMatrixLayoutOpaque_t first{}, second{}, result{};  // the library's A (our B), B (our A), C and D
  bool fused_bias = false;

  // `bias` stands for a bias of its alignment: heuristics look at it.
  Status SetBias(const CublasLtApi& api, const void* bias);
  // For fewer rows than the problem has; not for a transposed A.
  Status SetRows(const CublasLtApi& api, int64_t m);
};

Result<LtDescriptors> Describe(const CublasLtApi& api, const GemmProblem& problem, LtForm form);

// alpha and beta in the type that the library reads them in. For sums in int32 both are whole and fit.
struct LtScales {
  explicit LtScales(const GemmProblem& problem);
  const void* alpha() const { return data_; }
  const void* beta() const { return data_ + 8; }

 private:
  alignas(8) unsigned char data_[16] = {};
};

// The batch dimension that one call repeats over; the others are further calls.
int LibraryBatchOf(const GemmProblem& problem);

}  // namespace cudaep::blas
