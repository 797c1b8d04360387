// Copies between host and device memory on a stream that its owner captures into a CUDA graph.
//
// A graph cannot hold a copy of pageable memory, and the attempt ends the capture: so it is refused before.
// Threads: from any thread. Failure: kFailedPrecondition, with the capture as it was.
#pragma once

#include "core/status.h"
#include "device/device.h"

namespace cudaep {

// OK for a stream that is not captured. `host_side` may also be device memory.
Status RefuseCapturedPageable(const void* host_side, device::Stream stream);

}  // namespace cudaep
