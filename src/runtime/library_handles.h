// The process's pools of library handles.
#pragma once

#include "lib/blas.h"
#include "lib/dnn.h"
#include "runtime/handle_pool.h"

namespace cudaep {

HandlePool<blas::Handle>& BlasHandles();
HandlePool<dnn::Handle>& DnnHandles();

// A handle for whoever works without a stream's context, e.g. plans in the background. A dnn handle is bound to the
// legacy stream.
Result<HandleLease<blas::Handle>> LeaseBlas(const std::shared_ptr<memory::DeviceMemory>& memory);
Result<HandleLease<dnn::Handle>> LeaseDnn(const std::shared_ptr<memory::DeviceMemory>& memory,
                                          device::Stream stream = device::kLegacyStream);

}  // namespace cudaep
