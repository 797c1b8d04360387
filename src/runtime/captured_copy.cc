#include "runtime/captured_copy.h"

namespace cudaep {

Status RefuseCapturedPageable(const void* host_side, device::Stream stream) {
  device::CaptureState capture = device::CaptureState::kNone;
  CUDAEP_RETURN_IF_ERROR(device::StreamCaptureState(stream, &capture));
  if (capture == device::CaptureState::kNone) return Status::Ok();
  device::PointerInfo info;
  CUDAEP_RETURN_IF_ERROR(device::GetPointerInfo(host_side, &info));
  if (info.kind != device::PointerKind::kUnregisteredHost) return Status::Ok();
  return FailedPrecondition(
      "the stream is being captured into a CUDA graph, which cannot hold a copy of ordinary host ",
      "memory; bind page-locked or device memory");
}

}  // namespace cudaep
