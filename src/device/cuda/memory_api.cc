// device.h over the CUDA runtime: memory.
#include "device/cuda/errors.h"
#include "device/device.h"

namespace cudaep::device {
namespace {

cudaStream_t Native(Stream stream) { return reinterpret_cast<cudaStream_t>(stream); }
cudaMemPool_t Native(MemoryPool pool) { return reinterpret_cast<cudaMemPool_t>(pool); }

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

Status MemoryPoolCreate(MemoryPool* pool, int ordinal) {
  *pool = nullptr;
  int supported = 0;
  CUDAEP_CUDA_RETURN_IF_ERROR(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, ordinal));
  if (supported == 0) return NotSupported("the driver has no memory pools on CUDA device ", ordinal);
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = ordinal;
  cudaMemPool_t native = nullptr;
  CUDAEP_CUDA_RETURN_IF_ERROR(cudaMemPoolCreate(&native, &properties));
  UniqueMemoryPool owner(reinterpret_cast<MemoryPool>(native));
  // A wait that nobody asked for would serialise streams that are meant to overlap.
  int insert_waits = 0;
  CUDAEP_CUDA_RETURN_IF_ERROR(
      cudaMemPoolSetAttribute(native, cudaMemPoolReuseAllowInternalDependencies, &insert_waits));
  *pool = owner.Detach();
  return Status::Ok();
}

Status MemoryPoolDestroy(MemoryPool pool) { return CUDAEP_CUDA_STATUS(cudaMemPoolDestroy(Native(pool))); }

Status MallocFromPoolAsync(void** pointer, size_t bytes, MemoryPool pool, Stream stream) {
  *pointer = nullptr;
  if (bytes == 0) return Status::Ok();
  return NullOnError(cudaMallocFromPoolAsync(pointer, bytes, Native(pool), Native(stream)), "cudaMallocFromPoolAsync",
                     pointer);
}

Status MemoryPoolSetReleaseThreshold(MemoryPool pool, size_t bytes) {
  uint64_t threshold = bytes;
  return CUDAEP_CUDA_STATUS(cudaMemPoolSetAttribute(Native(pool), cudaMemPoolAttrReleaseThreshold, &threshold));
}

Status MemoryPoolTrim(MemoryPool pool, size_t bytes_to_keep) {
  return CUDAEP_CUDA_STATUS(cudaMemPoolTrimTo(Native(pool), bytes_to_keep));
}

Status MemoryPoolGetStats(MemoryPool pool, MemoryPoolStats* stats) {
  *stats = MemoryPoolStats();
  uint64_t reserved = 0, used = 0;
  CUDAEP_CUDA_RETURN_IF_ERROR(cudaMemPoolGetAttribute(Native(pool), cudaMemPoolAttrReservedMemCurrent, &reserved));
  CUDAEP_CUDA_RETURN_IF_ERROR(cudaMemPoolGetAttribute(Native(pool), cudaMemPoolAttrUsedMemCurrent, &used));
  *stats = {reserved, used};
  return Status::Ok();
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
