#include "memory/memory_source.h"

#include "memory/relaxed_capture.h"

namespace cudaep::memory {

Status MemorySource::Take(void** pointer, size_t bytes) const {
  *pointer = nullptr;
  if (budget != nullptr && !budget->TryCharge(budget_kind, bytes)) {
    return OutOfMemory("the memory limit is reached (", budget->Describe(), ")");
  }
  device::DeviceGuard guard(ordinal);
  Status status = guard.status();
  if (status.ok()) {
    RelaxedCapture relaxed;
    status = kind == MemoryKind::kDevice ? device::Malloc(pointer, bytes) : device::HostMalloc(pointer, bytes);
  }
  if (!status.ok() && budget != nullptr) budget->Release(budget_kind, bytes);
  return status;
}

Status MemorySource::Give(void* pointer, size_t bytes) const {
  if (budget != nullptr) budget->Release(budget_kind, bytes);
  device::DeviceGuard guard(ordinal);
  CUDAEP_RETURN_IF_ERROR(guard.status());
  RelaxedCapture relaxed;
  return kind == MemoryKind::kDevice ? device::Free(pointer) : device::HostFree(pointer);
}

}  // namespace cudaep::memory
