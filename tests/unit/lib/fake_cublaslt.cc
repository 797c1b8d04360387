// A cuBLASLt that computes nothing: it keeps what it is asked and answers as the test says.
#include "fake_cublaslt.h"

#include <cstring>

namespace {

FakeCublasLt state;

template <class Opaque, class Attribute>
cublasStatus_t Set(Opaque* opaque, Attribute attribute, const void* value, size_t bytes) {
  opaque->attributes[attribute] = 0;
  std::memcpy(&opaque->attributes[attribute], value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Opaque>
cublasStatus_t Clear(Opaque* opaque) {
  *opaque = {};
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

FakeCublasLt* fakeCublasLt() { return &state; }

size_t cublasLtGetVersion() { return 130100; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(&state);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_EXECUTION_FAILED ? "execution failed" : "another status";
}
cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, size_t, cublasComputeType_t, cudaDataType_t) {
  return Clear(desc);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  return Set(desc, attribute, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t, cudaDataType_t, uint64_t,
                                                 uint64_t, int64_t) {
  return Clear(layout);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t bytes) {
  return Set(layout, attribute, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t) {
  return Clear(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t bytes) {
  return Set(preference, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int,
                                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  const uint64_t alignment = preference->attributes[CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES];
  state.asked.push_back({alignment, desc->attributes[CUBLASLT_MATMUL_DESC_BIAS_POINTER]});
  results[0] = {{{alignment}}, 0, CUBLAS_STATUS_SUCCESS};
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algo, cublasLtMatmulHeuristicResult_t* result) {
  state.checked.push_back({algo->data[0], desc->attributes[CUBLASLT_MATMUL_DESC_BIAS_POINTER]});
  *result = {*algo, 0, CUBLAS_STATUS_SUCCESS};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void*, const void*,
                              cublasLtMatrixLayout_t, const void*, cublasLtMatrixLayout_t, const void*, const void*,
                              cublasLtMatrixLayout_t, void* c, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t* algo,
                              void*, size_t, cudaStream_t) {
  state.calls.push_back({algo->data[0], desc->attributes[CUBLASLT_MATMUL_DESC_BIAS_POINTER], c});
  if (state.answers.empty()) return CUBLAS_STATUS_SUCCESS;
  const cublasStatus_t answer = state.answers.front();
  state.answers.erase(state.answers.begin());
  return answer;
}
