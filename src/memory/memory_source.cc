#include "memory/memory_source.h"

#include "memory/relaxed_capture.h"

namespace cudaep::memory {

Status MemorySource::Charge(size_t bytes) const {
  if (budget == nullptr || budget->TryCharge(budget_kind, bytes)) return Status::Ok();
  return OutOfMemory("the memory limit is reached");
}

void MemorySource::Release(size_t bytes) const {
  if (budget != nullptr) budget->Release(budget_kind, bytes);
}

Status MemorySource::Acquire(void** pointer, size_t bytes) const {
  *pointer = nullptr;
  CUDAEP_RETURN_IF_ERROR(Charge(bytes));
  device::DeviceGuard guard(ordinal);
  Status status = guard.status();
  if (status.ok()) {
    RelaxedCapture relaxed;
    status = kind == MemoryKind::kDevice ? device::Malloc(pointer, bytes) : device::HostMalloc(pointer, bytes);
  }
  if (!status.ok()) Release(bytes);
  return status;
}

Status MemorySource::Return(void* pointer, size_t bytes) const {
  Release(bytes);
  device::DeviceGuard guard(ordinal);
  CUDAEP_RETURN_IF_ERROR(guard.status());
  RelaxedCapture relaxed;
  return kind == MemoryKind::kDevice ? device::Free(pointer) : device::HostFree(pointer);
}

}  // namespace cudaep::memory
