// From the runtime's error codes to Status.
//
// A sticky error (illegal address, launch failure, ECC, ...) makes the device unusable until the process ends: the
// runtime repeats it from every later call, and the first cause is kept so that all of them can name it.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "core/status.h"

namespace cudaep::device::cuda {

// `call` is the failing call as text. The thread's last error is cleared. Any thread may call it.
Status ErrorStatus(cudaError_t error, const char* call);

inline Status ToStatus(cudaError_t error, const char* call) {
  if (error == cudaSuccess) [[likely]]
    return Status::Ok();
  return ErrorStatus(error, call);
}

// Whether the error means that there is no usable GPU here, which is not a failure.
bool MeansNoDevice(cudaError_t error);

}  // namespace cudaep::device::cuda

#define CUDAEP_CUDA_STATUS(call) ::cudaep::device::cuda::ToStatus((call), #call)
#define CUDAEP_CUDA_RETURN_IF_ERROR(call) CUDAEP_RETURN_IF_ERROR(CUDAEP_CUDA_STATUS(call))
