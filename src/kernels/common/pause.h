// A kernel that does nothing but wait.
#pragma once

#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

// What is enqueued next begins when earlier work of the stream is done, though it take part in programmatic dependent
// launch: for kernels of libraries that do not wait for all that they read (dnn::ConvPlan). Takes about 1 us.
Status LaunchPause(device::Stream stream);

}  // namespace cudaep::kernels
