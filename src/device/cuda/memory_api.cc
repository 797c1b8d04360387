// device.h over the CUDA runtime: memory.
#include "device/cuda/errors.h"
#include "device/device.h"

namespace cudaep::device {
namespace {

cudaStream_t Native(Stream stream) { return reinterpret_cast<cudaStream_t>(stream); }

// On failure the out parameter is null, as in the simulated device.
Status NullOnError(cudaError_t error, const char* call, void** pointer) {
  if (error != cudaSuccess) *pointer = nullptr;
  return cuda::ToStatus(error, call);
}

}  // namespace

Status Malloc(void** pointer, size_t bytes) { return NullOnError(cudaMalloc(pointer, bytes), "cudaMalloc", pointer); }

Status Free(void* pointer) { return CUDAEP_CUDA_STATUS(cudaFree(pointer)); }

Status MallocAsync(void** pointer, size_t bytes, Stream stream) {
  *pointer = nullptr;
  if (bytes == 0) return Status::Ok();
  return NullOnError(cudaMallocAsync(pointer, bytes, Native(stream)), "cudaMallocAsync", pointer);
}

Status FreeAsync(void* pointer, Stream stream) {
  if (pointer == nullptr) return Status::Ok();
  return CUDAEP_CUDA_STATUS(cudaFreeAsync(pointer, Native(stream)));
}

Status HostMalloc(void** pointer, size_t bytes) {
  *pointer = nullptr;
  if (bytes == 0) return Status::Ok();
  return NullOnError(cudaHostAlloc(pointer, bytes, cudaHostAllocPortable), "cudaHostAlloc", pointer);
}

Status HostFree(void* pointer) { return CUDAEP_CUDA_STATUS(cudaFreeHost(pointer)); }

Status MemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return CUDAEP_CUDA_STATUS(cudaMemGetInfo(free_bytes, total_bytes));
}

Status GetPointerInfo(const void* pointer, PointerInfo* info) {
  *info = PointerInfo();
  cudaPointerAttributes attributes{};
  CUDAEP_CUDA_RETURN_IF_ERROR(cudaPointerGetAttributes(&attributes, pointer));
  switch (attributes.type) {
    case cudaMemoryTypeHost:
      info->kind = PointerKind::kPinnedHost;
      break;
    case cudaMemoryTypeDevice:
      info->kind = PointerKind::kDevice;
      break;
    case cudaMemoryTypeManaged:
      info->kind = PointerKind::kManaged;
      break;
    default:
      return Status::Ok();
  }
  info->ordinal = attributes.device;
  return Status::Ok();
}

Status MemcpyAsync(void* destination, const void* source, size_t bytes, Stream stream) {
  if (bytes == 0) return Status::Ok();
  return CUDAEP_CUDA_STATUS(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, Native(stream)));
}

Status MemcpyPeerAsync(void* destination, int destination_ordinal, const void* source, int source_ordinal, size_t bytes,
                       Stream stream) {
  if (bytes == 0) return Status::Ok();
  return CUDAEP_CUDA_STATUS(
      cudaMemcpyPeerAsync(destination, destination_ordinal, source, source_ordinal, bytes, Native(stream)));
}

Status MemsetAsync(void* destination, int byte_value, size_t bytes, Stream stream) {
  if (bytes == 0) return Status::Ok();
  return CUDAEP_CUDA_STATUS(cudaMemsetAsync(destination, byte_value, bytes, Native(stream)));
}

}  // namespace cudaep::device
