#include "lib/cuda/device_state.h"

#include <cuda_runtime_api.h>

#include "device/device.h"

namespace cudaep::lib {

Status AfterLibraryFailure(Status failure) {
  static_cast<void>(cudaGetLastError());  // the library's own calls may have left one
  // A call without effect that fails with the device's sticky error.
  size_t free_bytes = 0, total_bytes = 0;
  Status state = device::MemGetInfo(&free_bytes, &total_bytes);
  if (state.code() != StatusCode::kDeviceLost) return failure;
  return std::move(state).WithContext(failure.message());
}

}  // namespace cudaep::lib
