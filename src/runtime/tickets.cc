#include "runtime/tickets.h"

namespace cudaep {

Tickets::~Tickets() {
  if (counters_ != nullptr && !is_shared_) memory_->workspaces()->Free(counters_);
}

Status Tickets::Create() {
  device::CaptureState capture = device::CaptureState::kNone;
  CUDAEP_RETURN_IF_ERROR(device::StreamCaptureState(stream_, &capture));
  if (capture != device::CaptureState::kNone) {
    return FailedPrecondition("counters are needed for the first time while their stream is captured; run the same ",
                              "shapes once before capturing");
  }
  constexpr size_t kBytes = kCount * sizeof(unsigned);
  const auto allocator = memory_->workspaces();
  Result<void*> memory = allocator->AllocateOnStream(kBytes, stream_);
  if (!memory.ok()) return std::move(memory).status().WithContext("counters");
  Status cleared = device::MemsetAsync(memory.value(), 0, kBytes, stream_);
  if (!cleared.ok()) {
    allocator->Free(memory.value());
    return cleared;
  }
  counters_ = static_cast<unsigned*>(memory.value());
  return Status::Ok();
}

}  // namespace cudaep
