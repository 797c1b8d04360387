#include "ops/gemm/matrix_product.h"

#include <algorithm>

#include "kernels/elementwise/binary.h"
#include "kernels/gemm/tiled_gemm.h"
#include "lib/problem_check.h"

namespace cudaep::ops {
namespace {

// What cuBLAS asks for on Hopper and newer devices; more brings nothing.
constexpr size_t kWorkspaceLimitBytes = size_t{32} << 20;

// A problem that one library call may not take although the operator may have it.
bool IsForLibrary(const blas::GemmProblem& p) { return kFloatTypes.Contains(p.type) && p.k > 0; }

}  // namespace

Result<MatrixProduct> MatrixProduct::Make(StreamContext& stream, const blas::GemmProblem& problem,
                                          size_t workspace_limit_bytes) {
  MatrixProduct product;
  product.problem_ = problem;
  if (!IsForLibrary(problem)) return product;
  Result<blas::Handle*> handle = stream.blas();
  if (!handle.ok()) {
    if (handle.status().code() != StatusCode::kLibraryMissing) return std::move(handle).status();
    return product;
  }
  // What is free must not choose the algorithm where bits have to be the same each time.
  const size_t available = problem.deterministic ? SIZE_MAX : stream.workspace().PlanLimit();
  const size_t limit = std::min({kWorkspaceLimitBytes, workspace_limit_bytes, available});
  auto plan = blas::MakePlan(**handle, problem, limit);
  if (!plan.ok()) {
    if (plan.status().code() != StatusCode::kNotSupported) return std::move(plan).status();
    return product;
  }
  product.library_ = std::move(plan).value();
  if (problem.epilogue == blas::Epilogue::kBias && product.library_->needs_separate_bias()) {
    if (problem.batch != 1 || problem.ldc != problem.n) {
      return Internal(blas::ProblemText(problem), ": a separate bias needs one contiguous result");
    }
    const Shape y{problem.m, problem.n}, bias{problem.n};
    CUDAEP_ASSIGN_OR_RETURN(product.separate_bias_, kernels::MakeBroadcast<2>(y, {y.dims(), bias.dims()}));
  }
  return product;
}

Status MatrixProduct::EnqueueOwn(StreamContext& stream, const blas::GemmPointers& at) const {
  const blas::GemmProblem& p = problem_;
  const bool bias = p.epilogue == blas::Epilogue::kBias;
  return kernels::LaunchTiledGemm({.type = p.type,
                                   .m = p.m,
                                   .n = p.n,
                                   .k = p.k,
                                   .transpose_a = p.transpose_a,
                                   .transpose_b = p.transpose_b,
                                   .lda = p.lda,
                                   .ldb = p.ldb,
                                   .ldc = p.ldc,
                                   .batch = p.batch,
                                   .stride_a = p.stride_a,
                                   .stride_b = p.stride_b,
                                   .stride_c = p.stride_c,
                                   .alpha = p.alpha,
                                   .beta = p.beta},
                                  at.a, at.b, bias ? at.bias : nullptr, at.c, stream.stream());
}

Status MatrixProduct::Enqueue(StreamContext& stream, const blas::GemmPointers& at) const {
  if (library_ == nullptr) return EnqueueOwn(stream, at);
  CUDAEP_ASSIGN_OR_RETURN(blas::Handle* const handle, stream.blas());
  CUDAEP_RETURN_IF_ERROR(blas::Enqueue(*handle, *library_, at, stream.stream()));
  if (problem_.epilogue != blas::Epilogue::kBias || !library_->needs_separate_bias()) return Status::Ok();
  const kernels::BinaryKernel add = kernels::FindBinaryKernel("Add", problem_.type);
  return add({.a = at.c, .b = at.bias, .y = at.c, .broadcast = &separate_bias_}, stream.stream());
}

}  // namespace cudaep::ops
