#include "memory/adaptors/fault_allocator.h"

namespace cudaep::memory {

Status FaultCounter::Next(size_t bytes) {
  if (bytes == 0) return Status::Ok();
  const uint64_t number = requests_.fetch_add(1, std::memory_order_relaxed) + 1;
  const bool fails = request_ != 0 && (number == request_ || (number > request_ && extent_ == Extent::kFromThenOn));
  if (!fails) return Status::Ok();
  return OutOfMemory("[CUDAEP_OUT_OF_MEMORY] request ", number, " of ", bytes,
                     " bytes fails because it was told to: the device may have memory left");
}

Status FaultAllocator::Next(size_t bytes) {
  Status status = counter_->Next(bytes);
  if (!status.ok()) injected_.fetch_add(1, std::memory_order_relaxed);
  return status;
}

Result<void*> FaultAllocator::Allocate(size_t bytes) {
  CUDAEP_RETURN_IF_ERROR(Next(bytes));
  return inner().Allocate(bytes);
}

Result<void*> FaultAllocator::AllocateOnStream(size_t bytes, device::Stream stream) {
  CUDAEP_RETURN_IF_ERROR(Next(bytes));
  return inner().AllocateOnStream(bytes, stream);
}

Result<void*> FaultAllocator::Reserve(size_t bytes) {
  CUDAEP_RETURN_IF_ERROR(Next(bytes));
  return inner().Reserve(bytes);
}

AllocatorStats FaultAllocator::Stats() const {
  AllocatorStats stats = inner().Stats();
  stats.failures += injected_.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace cudaep::memory
