// A stream for copies between host and device memory beside one compute stream (do_copy_in_default_stream=0).
//
// A copy waits for everything that the compute stream was given before it, because the memory it writes may have been
// in use there until then, and the compute stream waits for the copy before anything that comes after it. So memory
// keeps belonging to the compute stream, whichever of the two touches it; nothing here makes the host wait.
// Ownership: owns stream and events, not the compute stream. Threads: one thread at a time.
// Capture: the copy joins a capture of the compute stream and leaves it in order.
#pragma once

#include "core/status.h"
#include "device/device.h"

namespace cudaep {

class CopyStream {
 public:
  // On the current device.
  Status Create();
  bool exists() const { return static_cast<bool>(stream_); }

  // The stream to queue copies on, after all earlier work of `compute`.
  Result<device::Stream> Begin(device::Stream compute);
  // Later work of `compute` runs after the copies.
  Status End(device::Stream compute);

 private:
  device::UniqueStream stream_;
  device::UniqueEvent ready_, done_;
};

}  // namespace cudaep
