// Inputs that the host hands a kernel in the wrong memory, brought to where the kernel reads them, for one call.
//
// The host copies between the memories where the nodes of one graph meet. What a graph inside control flow takes from
// two graphs further out, or an initializer out there that both sides read, comes as it lies.
// Threads: one thread at a time. Failure: kFailedPrecondition while the stream is captured, kOutOfMemory.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "abi/host.h"
#include "ops/tensor_view.h"
#include "runtime/stream_context.h"

namespace cudaep::abi {

// Whether a kernel can read the value where it is: one that computes on the device, or one that wants it on the host.
bool IsReadable(const OrtValue* value, bool on_host);

// A copy in host memory of what lies on the device. Waits for the stream.
Result<std::shared_ptr<void>> CopyToHost(const ops::TensorView& view, device::Stream stream);

class MovedInputs {
 public:
  explicit MovedInputs(StreamContext& stream) : stream_(stream) {}
  ~MovedInputs();
  MovedInputs(const MovedInputs&) = delete;
  MovedInputs& operator=(const MovedInputs&) = delete;

  // Points `view`, which is of `value`, to a copy where the kernel cannot read the value itself.
  Status Bring(const OrtValue* value, bool on_host, ops::TensorView* view);

 private:
  Status BringToDevice(ops::TensorView* view);

  StreamContext& stream_;
  std::vector<void*> on_device_;
  std::vector<std::shared_ptr<void>> on_host_;
};

}  // namespace cudaep::abi
