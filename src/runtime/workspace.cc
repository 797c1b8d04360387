#include "runtime/workspace.h"

#include <algorithm>

#include "core/checked_math.h"

namespace cudaep {

namespace {
constexpr size_t kFirstBlockBytes = size_t{1} << 20;
}  // namespace

Workspace::~Workspace() = default;

Result<void*> Workspace::Grow(size_t bytes) {
  device::CaptureState capture = device::CaptureState::kNone;
  CUDAEP_RETURN_IF_ERROR(device::StreamCaptureState(stream_, &capture));
  if (capture != device::CaptureState::kNone) {
    return FailedPrecondition("workspace must grow to ", bytes,
                              " bytes while its stream is captured; run the same shapes once before capturing");
  }
  const size_t size = AlignUp(std::max({bytes, 2 * bytes_, kFirstBlockBytes}), size_t{1} << 16);
  device::UniqueDeviceMemory block;
  CUDAEP_RETURN_IF_ERROR(device::Malloc(block.Receive(), size).WithContext("workspace"));
  block_ = block.get();
  bytes_ = size;
  blocks_.push_back(std::move(block));
  return block_;
}

}  // namespace cudaep
