// cuBLASLt's functions, found at run time.
//
// Only cuBLASLt 13 is accepted: this project links the CUDA 13 runtime, and a copy of version 12 beside it would only
// double the memory that kernels take. Threads and failure: as loader.h says.
#pragma once

#include <cublasLt.h>

#include "lib/loader.h"

namespace cudaep::blas {

#define CUDAEP_CUBLASLT_SYMBOLS(X)         \
  X(cublasLtCreate)                        \
  X(cublasLtDestroy)                       \
  X(cublasLtGetStatusString)               \
  X(cublasLtMatmul)                        \
  X(cublasLtMatmulAlgoCheck)               \
  X(cublasLtMatmulAlgoGetHeuristic)        \
  X(cublasLtMatmulDescInit_internal)       \
  X(cublasLtMatmulDescSetAttribute)        \
  X(cublasLtMatrixLayoutInit_internal)     \
  X(cublasLtMatrixLayoutSetAttribute)      \
  X(cublasLtMatmulPreferenceInit_internal) \
  X(cublasLtMatmulPreferenceSetAttribute)

struct CublasLtApi {
  lib::LoadedLibrary library;
#define CUDAEP_DECLARE(symbol) decltype(&::symbol) symbol = nullptr;
  CUDAEP_CUBLASLT_SYMBOLS(CUDAEP_DECLARE)
#undef CUDAEP_DECLARE
};

// Loads the library at the first call that succeeds.
Result<const CublasLtApi*> CublasLt();
// For releases: null only when nothing was ever created.
const CublasLtApi* LoadedCublasLt();

Status ToStatus(const CublasLtApi& api, cublasStatus_t status, std::string_view call);

}  // namespace cudaep::blas
