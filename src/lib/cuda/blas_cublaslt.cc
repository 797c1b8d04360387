// blas.h by cuBLASLt. The library is column-major: a row-major C is its C^T = op(B)^T op(A)^T, so the operands swap
// places, nothing is transposed in memory, and a bias along n runs along the library's rows, which it can fuse.
#include <algorithm>
#include <array>
#include <limits>

#include "lib/blas.h"
#include "lib/cuda/cublaslt_api.h"
#include "lib/problem_check.h"

namespace cudaep::blas {
namespace {

struct HandleTraits {
  using Type = cublasLtHandle_t;
  static Type Null() { return nullptr; }
  static void Release(Type handle) { LoadedCublasLt()->cublasLtDestroy(handle); }
};

class LtHandle final : public Handle {
 public:
  explicit LtHandle(const CublasLtApi& api) : api(api) {}
  const CublasLtApi& api;
  UniqueHandle<HandleTraits> handle;
};

// The algorithm to use when every pointer is aligned to `alignment` bytes.
struct Variant {
  uint32_t alignment = 0;
  cublasLtMatmulAlgo_t algo{};
  size_t workspace_bytes = 0;
};

class LtPlan final : public GemmPlan {
 public:
  void SetWorkspaceBytes(size_t bytes) { workspace_bytes_ = std::max(workspace_bytes_, bytes); }
  void SetNeedsSeparateBias() { needs_separate_bias_ = true; }

  cublasLtMatmulDescOpaque_t operation{};
  cublasLtMatrixLayoutOpaque_t first{}, second{}, result{};  // the library's A (our B), B (our A) and C
  std::array<Variant, 3> variants{};                         // by falling alignment
  size_t variant_count = 0;
  bool fused_bias = false;
  bool wide_scale = false;  // alpha and beta are read as double
  float alpha = 1.0f, beta = 0.0f;
};

struct Types {
  cudaDataType_t data;
  cudaDataType_t scale;
  cublasComputeType_t compute;
};

Types TypesOf(const GemmProblem& p) {
  switch (p.type) {
    case DataType::kFloat16:
      return {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DataType::kBFloat16:
      return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DataType::kDouble:
      return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    default:
      return {CUDA_R_32F, CUDA_R_32F, p.allow_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
  }
}

template <class Value>
Status SetOperation(const CublasLtApi& api, cublasLtMatmulDescOpaque_t* operation,
                    cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  return ToStatus(api, api.cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)),
                  "cublasLtMatmulDescSetAttribute");
}

template <class Value>
Status SetPreference(const CublasLtApi& api, cublasLtMatmulPreferenceOpaque_t* preference,
                     cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  return ToStatus(api, api.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
                  "cublasLtMatmulPreferenceSetAttribute");
}

Status InitOperation(const CublasLtApi& api, const GemmProblem& p, bool fuse_bias, LtPlan* plan) {
  const Types types = TypesOf(p);
  CUDAEP_RETURN_IF_ERROR(ToStatus(
      api, api.cublasLtMatmulDescInit_internal(&plan->operation, sizeof(plan->operation), types.compute, types.scale),
      "cublasLtMatmulDescInit"));
  const cublasOperation_t first = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  CUDAEP_RETURN_IF_ERROR(SetOperation(api, &plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, first));
  CUDAEP_RETURN_IF_ERROR(SetOperation(api, &plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, second));
  plan->fused_bias = fuse_bias;
  if (!fuse_bias) return Status::Ok();
  CUDAEP_RETURN_IF_ERROR(
      SetOperation(api, &plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, cublasLtEpilogue_t{CUBLASLT_EPILOGUE_BIAS}));
  // The heuristic looks at the pointer's alignment; the real one is set per call.
  const void* aligned = reinterpret_cast<const void*>(uintptr_t{256});
  return SetOperation(api, &plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, aligned);
}

// A row-major matrix of `rows` x `columns` is the library's `columns` x `rows`.
Status InitLayout(const CublasLtApi& api, const GemmProblem& p, int64_t rows, int64_t columns, int64_t ld,
                  int64_t batch_stride, cublasLtMatrixLayoutOpaque_t* layout) {
  CUDAEP_RETURN_IF_ERROR(ToStatus(
      api,
      api.cublasLtMatrixLayoutInit_internal(layout, sizeof(*layout), TypesOf(p).data, static_cast<uint64_t>(columns),
                                            static_cast<uint64_t>(rows), std::max(ld, columns)),
      "cublasLtMatrixLayoutInit"));
  if (p.batch == 1) return Status::Ok();
  const int32_t batch = static_cast<int32_t>(p.batch);
  CUDAEP_RETURN_IF_ERROR(ToStatus(
      api, api.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)),
      "cublasLtMatrixLayoutSetAttribute"));
  return ToStatus(api,
                  api.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                       &batch_stride, sizeof(batch_stride)),
                  "cublasLtMatrixLayoutSetAttribute");
}

Status InitLayouts(const CublasLtApi& api, const GemmProblem& p, LtPlan* plan) {
  CUDAEP_RETURN_IF_ERROR(
      InitLayout(api, p, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb, p.stride_b, &plan->first));
  CUDAEP_RETURN_IF_ERROR(
      InitLayout(api, p, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda, p.stride_a, &plan->second));
  return InitLayout(api, p, p.m, p.n, p.ldc, p.stride_c, &plan->result);
}

// Adds the library's first choice for pointers aligned to `alignment`, if it has one.
Status AddVariant(const LtHandle& handle, const GemmProblem& p, size_t workspace_limit, uint32_t alignment,
                  LtPlan* plan) {
  const CublasLtApi& api = handle.api;
  cublasLtMatmulPreferenceOpaque_t preference{};
  CUDAEP_RETURN_IF_ERROR(ToStatus(api, api.cublasLtMatmulPreferenceInit_internal(&preference, sizeof(preference)),
                                  "cublasLtMatmulPreferenceInit"));
  const uint64_t limit = workspace_limit;
  CUDAEP_RETURN_IF_ERROR(SetPreference(api, &preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, limit));
  for (auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    CUDAEP_RETURN_IF_ERROR(SetPreference(api, &preference, attribute, alignment));
  }
  if (kFloat16Types.Contains(p.type) || p.deterministic) {
    // Split-K partial sums stay in fp32 and are added in one order: the other schemes add them up in the output, of 16
    // bits or as they come.
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    CUDAEP_RETURN_IF_ERROR(SetPreference(api, &preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes));
  }
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      api.cublasLtMatmulAlgoGetHeuristic(handle.handle.get(), &plan->operation, &plan->first, &plan->second,
                                         &plan->result, &plan->result, &preference, 1, &found, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0)) return Status::Ok();
  CUDAEP_RETURN_IF_ERROR(ToStatus(api, status, "cublasLtMatmulAlgoGetHeuristic"));
  if (found.state != CUBLAS_STATUS_SUCCESS) return Status::Ok();
  plan->variants[plan->variant_count++] = {alignment, found.algo, found.workspaceSize};
  plan->SetWorkspaceBytes(found.workspaceSize);
  return Status::Ok();
}

// A plan without variants when the library has no algorithm.
Result<std::unique_ptr<LtPlan>> TryPlan(const LtHandle& handle, const GemmProblem& p, bool fuse_bias, size_t limit) {
  auto plan = std::make_unique<LtPlan>();
  CUDAEP_RETURN_IF_ERROR(InitOperation(handle.api, p, fuse_bias, plan.get()));
  CUDAEP_RETURN_IF_ERROR(InitLayouts(handle.api, p, plan.get()));
  // Allocators give 256 bytes; slices of packed tensors often 16; anything else is rare but must work.
  for (uint32_t alignment : {256u, 16u, static_cast<uint32_t>(SizeOf(p.type))}) {
    CUDAEP_RETURN_IF_ERROR(AddVariant(handle, p, limit, alignment, plan.get()));
  }
  plan->wide_scale = p.type == DataType::kDouble;
  plan->alpha = p.alpha;
  plan->beta = p.beta;
  return plan;
}

// The best variant that these pointers' alignment allows; null when there is none.
const Variant* PickVariant(const LtPlan& plan, const GemmPointers& pointers) {
  const auto bits = reinterpret_cast<uintptr_t>(pointers.a) | reinterpret_cast<uintptr_t>(pointers.b) |
                    reinterpret_cast<uintptr_t>(pointers.c) |
                    (plan.fused_bias ? reinterpret_cast<uintptr_t>(pointers.bias) : 0);
  for (size_t i = 0; i < plan.variant_count; ++i) {
    if ((bits & (plan.variants[i].alignment - 1)) == 0) return &plan.variants[i];
  }
  return nullptr;
}

}  // namespace

Result<std::string> Version() {
  CUDAEP_ASSIGN_OR_RETURN(const CublasLtApi* api, CublasLt());
  return StrCat("cuBLASLt ", lib::VersionText(api->library.version));
}

Result<std::unique_ptr<Handle>> CreateHandle() {
  CUDAEP_ASSIGN_OR_RETURN(const CublasLtApi* api, CublasLt());
  auto handle = std::make_unique<LtHandle>(*api);
  CUDAEP_RETURN_IF_ERROR(ToStatus(*api, api->cublasLtCreate(handle->handle.Receive()), "cublasLtCreate"));
  return std::unique_ptr<Handle>(std::move(handle));
}

Result<std::unique_ptr<const GemmPlan>> MakePlan(Handle& handle, const GemmProblem& problem,
                                                 size_t workspace_limit_bytes) {
  CUDAEP_RETURN_IF_ERROR(CheckProblem(problem));
  if (problem.batch > std::numeric_limits<int32_t>::max()) {
    return NotSupported(ProblemText(problem), ": cuBLASLt counts batches with 32 bits");
  }
  const auto& lt = static_cast<const LtHandle&>(handle);
  const bool bias = problem.epilogue == Epilogue::kBias;
  CUDAEP_ASSIGN_OR_RETURN(std::unique_ptr<LtPlan> plan, TryPlan(lt, problem, bias, workspace_limit_bytes));
  if (plan->variant_count == 0 && bias) {
    CUDAEP_ASSIGN_OR_RETURN(plan, TryPlan(lt, problem, false, workspace_limit_bytes));
    plan->SetNeedsSeparateBias();
  }
  if (plan->variant_count == 0) {
    return NotSupported(ProblemText(problem), ": cuBLASLt ", lib::VersionText(lt.api.library.version),
                        " has no algorithm within ", workspace_limit_bytes, " bytes of workspace");
  }
  return std::unique_ptr<const GemmPlan>(std::move(plan));
}

Status Enqueue(Handle& handle, const GemmPlan& base_plan, const GemmPointers& pointers, device::Stream stream) {
  const auto& lt = static_cast<const LtHandle&>(handle);
  const auto& plan = static_cast<const LtPlan&>(base_plan);
  const Variant* variant = PickVariant(plan, pointers);
  if (variant == nullptr) return NotSupported("cuBLASLt has no algorithm for pointers aligned this little");
  const double wide[2] = {plan.alpha, plan.beta};
  const void* alpha = plan.wide_scale ? static_cast<const void*>(&wide[0]) : &plan.alpha;
  const void* beta = plan.wide_scale ? static_cast<const void*>(&wide[1]) : &plan.beta;
  // The library takes descriptors by non-const pointer, and the bias address is part of one: each call has its own
  // copy.
  cublasLtMatmulDescOpaque_t operation = plan.operation;
  if (plan.fused_bias) {
    CUDAEP_RETURN_IF_ERROR(SetOperation(lt.api, &operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointers.bias));
  }
  cublasLtMatrixLayoutOpaque_t first = plan.first, second = plan.second, result = plan.result;
  return ToStatus(
      lt.api,
      lt.api.cublasLtMatmul(lt.handle.get(), &operation, alpha, pointers.b, &first, pointers.a, &second, beta,
                            pointers.c, &result, pointers.c, &result, &variant->algo, pointers.workspace,
                            variant->workspace_bytes, reinterpret_cast<cudaStream_t>(stream)),
      "cublasLtMatmul");
}

}  // namespace cudaep::blas
