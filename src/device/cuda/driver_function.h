// Functions of the driver, found through the runtime: nothing links against the driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace cudaep::device::cuda {

// False, and the function null, where the driver does not have it as of CUDA 12.0.
template <class F>
bool FindDriverFunction(const char* name, F* function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
  *function = reinterpret_cast<F>(found);
  if (error != cudaSuccess) cudaGetLastError();
  return error == cudaSuccess && result == cudaDriverEntryPointSuccess && found != nullptr;
}

}  // namespace cudaep::device::cuda
