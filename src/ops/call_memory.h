// Device memory for one call, e.g. for copies of tensors that lie where a kernel with a fixed order of sums cannot read
// them. For the rare call: others plan scratch memory.
//
// Ownership: given back when this ends; it is the stream's until the work that was queued by then is done. Threads: one
// thread at a time. Failure: kOutOfMemory; while the stream is captured kFailedPrecondition, unless such a call ran
// before.
#pragma once

#include <memory>

#include "core/checked_math.h"
#include "runtime/stream_context.h"

namespace cudaep::ops {

class CallMemory {
 public:
  explicit CallMemory(StreamContext& stream)
      : allocator_(stream.memory()->tensors()), stream_(stream.stream()), data_(nullptr) {}
  ~CallMemory() { allocator_->Free(data_); }
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;

  // A part of what Take will take: its offset.
  size_t Add(size_t bytes) {
    const size_t offset = AlignUp(bytes_, memory::kAlignmentBytes);
    bytes_ = offset + bytes;
    return offset;
  }
  Status Take() {
    Result<void*> data = allocator_->AllocateOnStream(bytes_, stream_);
    if (!data.ok()) return std::move(data).status().WithContext("copies of unaligned tensors");
    data_ = data.value();
    return Status::Ok();
  }
  void* at(size_t offset) const { return static_cast<std::byte*>(data_) + offset; }

 private:
  const std::shared_ptr<memory::Allocator> allocator_;
  const device::Stream stream_;
  size_t bytes_ = 0;
  void* data_;
};

}  // namespace cudaep::ops
