#include "runtime/workspace.h"

#include "core/checked_math.h"

namespace cudaep {

namespace {
constexpr size_t kFirstBlockBytes = size_t{1} << 20;
constexpr size_t kGranularity = size_t{1} << 16;
}  // namespace

Workspace::~Workspace() {
  if (blocks_.empty()) return;
  const auto allocator = memory_->workspaces();
  for (void* block : blocks_) allocator->Free(block);
}

size_t Workspace::PlanLimit() const {
  const size_t available = memory_->budget().available_bytes();
  const size_t share = available == SIZE_MAX ? SIZE_MAX : available / 4;
  return std::max(bytes_, std::min(share, ceiling_));
}

Result<void*> Workspace::Grow(size_t bytes) {
  device::CaptureState capture = device::CaptureState::kNone;
  CUDAEP_RETURN_IF_ERROR(device::StreamCaptureState(stream_, &capture));
  if (capture != device::CaptureState::kNone) {
    return FailedPrecondition("workspace must grow to ", bytes,
                              " bytes while its stream is captured; run the same shapes once before capturing");
  }
  if (bytes > SIZE_MAX / 4) return OutOfMemory("a workspace of ", bytes, " bytes is impossible");
  const auto allocator = memory_->workspaces();
  const size_t generous = std::max({bytes, 2 * bytes_, kFirstBlockBytes});
  size_t size = AlignUp(memory_->budget().limit_bytes() == 0 ? generous : bytes, kGranularity);
  Result<void*> block = allocator->AllocateOnStream(size, stream_);
  if (block.status().code() == StatusCode::kOutOfMemory) {
    size = AlignUp(bytes, memory::kAlignmentBytes);
    block = allocator->AllocateOnStream(size, stream_);
  }
  if (!block.ok()) return std::move(block).status().WithContext("workspace");
  blocks_.push_back(block.value());
  block_ = block.value();
  bytes_ = size;
  return block_;
}

}  // namespace cudaep
