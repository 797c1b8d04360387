#include "memory/adaptors/ruled_allocator.h"

#include "device/blocks.h"
#include "memory/allocation_label.h"
#include "memory/memory_registry.h"

namespace cudaep::memory {

Status RuledAllocator::CountRequest(size_t bytes) {
  const uint64_t number = rules_.faults->requests.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number != rules_.faults->fails) return Status::Ok();
  refused_.fetch_add(1, std::memory_order_relaxed);
  return OutOfMemory("[CUDAEP_OUT_OF_MEMORY] request ", number, " of ", bytes,
                     " bytes fails because it was told to: the device may have memory left");
}

template <class F>
Result<void*> RuledAllocator::Serve(size_t bytes, F&& request) {
  if (bytes == 0) return nullptr;
  if (rules_.faults != nullptr) CUDAEP_RETURN_IF_ERROR(CountRequest(bytes));
  Result<void*> pointer = request();
  if (pointer.ok() || pointer.status().code() != StatusCode::kOutOfMemory) [[likely]]
    return pointer;
  if (!rules_.reclaims || (rules_.limit_bytes != 0 && bytes > rules_.limit_bytes)) return pointer;
  ReclaimIdleMemory(rules_.ordinal);
  return request();
}

Result<void*> RuledAllocator::Allocate(size_t bytes) {
  if (rules_.requires_stream && bytes != 0) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    const char* label = CurrentLabel();
    return FailedPrecondition(label != nullptr ? label : "a caller outside of any node", " asked for ", bytes,
                              " bytes without naming a stream, which the debugging settings forbid");
  }
  Result<void*> pointer = Serve(bytes, [&] { return inner().Allocate(bytes); });
  if (rules_.declares && pointer.ok() && *pointer != nullptr) device::DeclareBlock(*pointer, bytes);
  return pointer;
}

Result<void*> RuledAllocator::AllocateOnStream(size_t bytes, device::Stream stream) {
  Result<void*> pointer = Serve(bytes, [&] { return inner().AllocateOnStream(bytes, stream); });
  if (rules_.declares && pointer.ok() && *pointer != nullptr) device::DeclareBlock(*pointer, bytes, stream);
  return pointer;
}

Result<void*> RuledAllocator::Reserve(size_t bytes) {
  Result<void*> pointer = Serve(bytes, [&] { return inner().Reserve(bytes); });
  if (rules_.declares && pointer.ok() && *pointer != nullptr) device::DeclareBlock(*pointer, bytes);
  return pointer;
}

void RuledAllocator::Free(void* pointer) {
  if (rules_.declares) device::ForgetBlock(pointer);  // before the memory can be somebody else's
  inner().Free(pointer);
}

AllocatorStats RuledAllocator::Stats() const {
  AllocatorStats stats = inner().Stats();
  stats.failures += refused_.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace cudaep::memory
