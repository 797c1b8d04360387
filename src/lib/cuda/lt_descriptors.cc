#include "lib/cuda/lt_descriptors.h"

#include <algorithm>
#include <cstring>

namespace cudaep::blas {
namespace {

struct LtTypes {
  cudaDataType_t a, c, scale;
  cublasComputeType_t compute;
};

cudaDataType_t CudaType(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return CUDA_R_16F;
    case DataType::kBFloat16:
      return CUDA_R_16BF;
    case DataType::kDouble:
      return CUDA_R_64F;
    case DataType::kInt8:
      return CUDA_R_8I;
    case DataType::kInt32:
      return CUDA_R_32I;
    default:
      return CUDA_R_32F;
  }
}

LtTypes TypesOf(const GemmProblem& p) {
  LtTypes types{CudaType(p.types.a), CudaType(p.types.c), CUDA_R_32F, CUBLAS_COMPUTE_32F};
  if (p.types.compute == DataType::kDouble) {
    types.scale = CUDA_R_64F, types.compute = CUBLAS_COMPUTE_64F;
  } else if (p.types.compute == DataType::kInt32) {
    types.scale = CUDA_R_32I, types.compute = CUBLAS_COMPUTE_32I;
  } else if (p.types.a == DataType::kFloat && p.allow_tf32) {
    types.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  }
  return types;
}

template <class Value>
Status SetOperation(const CublasLtApi& api, cublasLtMatmulDescOpaque_t* operation,
                    cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  return ToStatus(api, api.cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)),
                  "cublasLtMatmulDescSetAttribute");
}

template <class Value>
Status SetLayout(const CublasLtApi& api, cublasLtMatrixLayoutOpaque_t* layout,
                 cublasLtMatrixLayoutAttribute_t attribute, const Value& value) {
  return ToStatus(api, api.cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof(value)),
                  "cublasLtMatrixLayoutSetAttribute");
}

cublasLtEpilogue_t LtEpilogueOf(const Epilogue& epilogue, LtForm form) {
  if (form == LtForm::kSumOnly) return CUBLASLT_EPILOGUE_DEFAULT;
  const Activation activation = form == LtForm::kAll ? epilogue.activation : Activation::kNone;
  const bool bias = epilogue.bias;
  if (activation == Activation::kRelu) return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  if (activation == Activation::kGeluTanh) return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

// A row-major matrix of `rows` x `columns` is the library's `columns` x `rows`.
Status InitLayout(const CublasLtApi& api, const GemmProblem& p, cudaDataType_t type, int64_t rows, int64_t columns,
                  int64_t ld, int64_t batch_stride, cublasLtMatrixLayoutOpaque_t* layout) {
  CUDAEP_RETURN_IF_ERROR(
      ToStatus(api,
               api.cublasLtMatrixLayoutInit_internal(layout, sizeof(*layout), type, static_cast<uint64_t>(columns),
                                                     static_cast<uint64_t>(rows), std::max(ld, columns)),
               "cublasLtMatrixLayoutInit"));
  const auto batch = static_cast<int32_t>(p.batch[static_cast<size_t>(LibraryBatchOf(p))].size);
  if (batch == 1) return Status::Ok();
  CUDAEP_RETURN_IF_ERROR(SetLayout(api, layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch));
  return SetLayout(api, layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, batch_stride);
}

}  // namespace

bool IsOffered(const GemmProblem& p, LtForm form) {
  const Epilogue& e = p.epilogue;
  switch (form) {
    case LtForm::kAll:
      // The library's GELU is exact to 16 bits only.
      return e.activation == Activation::kNone || e.activation == Activation::kRelu ||
             (e.activation == Activation::kGeluTanh && kFloat16Types.Contains(p.types.c));
    case LtForm::kNoActivation:
      return e.activation != Activation::kNone;
    case LtForm::kSumOnly:
      return e.bias;
  }
  return false;
}

Epilogue RemainingOf(const GemmProblem& p, LtForm form) {
  Epilogue remaining;
  if (form != LtForm::kAll) {
    remaining.activation = p.epilogue.activation;
    remaining.parameters = p.epilogue.parameters;
  }
  if (form == LtForm::kSumOnly) remaining.bias = p.epilogue.bias;
  return remaining;
}

Status LtDescriptors::SetBias(const CublasLtApi& api, const void* bias) {
  if (!fused_bias) return Status::Ok();
  return SetOperation(api, &operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
}

Status LtDescriptors::SetRows(const CublasLtApi& api, int64_t m) {
  CUDAEP_RETURN_IF_ERROR(SetLayout(api, &second, CUBLASLT_MATRIX_LAYOUT_COLS, static_cast<uint64_t>(m)));
  return SetLayout(api, &result, CUBLASLT_MATRIX_LAYOUT_COLS, static_cast<uint64_t>(m));
}

Result<LtDescriptors> Describe(const CublasLtApi& api, const GemmProblem& p, LtForm form) {
  LtDescriptors out;
  const LtTypes types = TypesOf(p);
  CUDAEP_RETURN_IF_ERROR(ToStatus(
      api, api.cublasLtMatmulDescInit_internal(&out.operation, sizeof(out.operation), types.compute, types.scale),
      "cublasLtMatmulDescInit"));
  const cublasOperation_t first = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  CUDAEP_RETURN_IF_ERROR(SetOperation(api, &out.operation, CUBLASLT_MATMUL_DESC_TRANSA, first));
  CUDAEP_RETURN_IF_ERROR(SetOperation(api, &out.operation, CUBLASLT_MATMUL_DESC_TRANSB, second));
  const cublasLtEpilogue_t epilogue = LtEpilogueOf(p.epilogue, form);
  if (epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    CUDAEP_RETURN_IF_ERROR(SetOperation(api, &out.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
  }
  out.fused_bias = p.epilogue.bias && form != LtForm::kSumOnly;
  const BatchDim& batch = p.batch[static_cast<size_t>(LibraryBatchOf(p))];
  CUDAEP_RETURN_IF_ERROR(InitLayout(api, p, types.a, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb,
                                    batch.stride_b, &out.first));
  CUDAEP_RETURN_IF_ERROR(InitLayout(api, p, types.a, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda,
                                    batch.stride_a, &out.second));
  CUDAEP_RETURN_IF_ERROR(InitLayout(api, p, types.c, p.m, p.n, p.ldc, batch.stride_c, &out.result));
  return out;
}

LtScales::LtScales(const GemmProblem& p) {
  const auto put = [&](unsigned char* at, float value) {
    const double wide = value;
    if (p.types.compute == DataType::kDouble) {
      std::memcpy(at, &wide, sizeof(wide));
    } else if (p.types.compute == DataType::kInt32) {
      const auto whole = static_cast<int32_t>(value);
      std::memcpy(at, &whole, sizeof(whole));
    } else {
      std::memcpy(at, &value, sizeof(value));
    }
  };
  put(data_, p.epilogue.alpha);
  put(data_ + 8, p.epilogue.beta);
}

int LibraryBatchOf(const GemmProblem& p) {
  const auto largest =
      std::max_element(p.batch.begin(), p.batch.end(), [](const auto& x, const auto& y) { return x.size < y.size; });
  return static_cast<int>(largest - p.batch.begin());
}

}  // namespace cudaep::blas
