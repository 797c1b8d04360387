// cuDNN 9's graph functions, found at run time.
//
// libcudnn.so.9 is one name for the CUDA 12 and the CUDA 13 build and opens its sub-libraries from its own folder, so
// a copy that the process already loaded is used whatever it was built for. Threads and failure: as loader.h says.
#pragma once

#include <cudnn_graph.h>

#include "lib/loader.h"

namespace cudaep::dnn {

#define CUDAEP_CUDNN_SYMBOLS(X)    \
  X(cudnnCreate)                   \
  X(cudnnDestroy)                  \
  X(cudnnSetStream)                \
  X(cudnnGetCudartVersion)         \
  X(cudnnGetErrorString)           \
  X(cudnnGetLastErrorString)       \
  X(cudnnBackendCreateDescriptor)  \
  X(cudnnBackendDestroyDescriptor) \
  X(cudnnBackendSetAttribute)      \
  X(cudnnBackendGetAttribute)      \
  X(cudnnBackendFinalize)          \
  X(cudnnBackendExecute)

struct CudnnApi {
  lib::LoadedLibrary library;
#define CUDAEP_DECLARE(symbol) decltype(&::symbol) symbol = nullptr;
  CUDAEP_CUDNN_SYMBOLS(CUDAEP_DECLARE)
#undef CUDAEP_DECLARE
};

// Loads the library at the first call that succeeds.
Result<const CudnnApi*> Cudnn();
// For releases: null only when nothing was ever created.
const CudnnApi* LoadedCudnn();

// The error carries the library's own text of the failed check.
Status ToStatus(const CudnnApi& api, cudnnStatus_t status, std::string_view call);

}  // namespace cudaep::dnn
