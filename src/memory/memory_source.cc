#include "memory/memory_source.h"

namespace cudaep::memory {

Status MemorySource::Take(void** pointer, size_t bytes) const {
  device::DeviceGuard guard(ordinal);
  CUDAEP_RETURN_IF_ERROR(guard.status());
  return kind == MemoryKind::kDevice ? device::Malloc(pointer, bytes) : device::HostMalloc(pointer, bytes);
}

Status MemorySource::Give(void* pointer) const {
  device::DeviceGuard guard(ordinal);
  CUDAEP_RETURN_IF_ERROR(guard.status());
  return kind == MemoryKind::kDevice ? device::Free(pointer) : device::HostFree(pointer);
}

}  // namespace cudaep::memory
