// What a failure of a vendor library says of the device.
#pragma once

#include "core/status.h"

namespace cudaep::lib {

// `failure` as it is, or kDeviceLost with the first cause when the device is lost. Clears the runtime's last error, so
// that a later launch is not blamed for it. Allowed while a stream is being captured.
Status AfterLibraryFailure(Status failure);

}  // namespace cudaep::lib
