#include "runtime/stream_context.h"

#include <cstring>

#include "memory/memory_registry.h"

namespace cudaep {
namespace {

constexpr size_t kReadBackBytes = 256;  // counts and flags, not data

// The default configuration takes nothing from the device before it is used, so there is nothing to fail.
std::shared_ptr<memory::DeviceMemory> DefaultMemory(int ordinal) {
  memory::MemoryConfig config;
  config.ordinal = ordinal;
  return memory::AcquireDeviceMemory(config).value();
}

Status UnlessMissing(Status status) {
  return status.code() == StatusCode::kLibraryMissing ? Status::Ok() : std::move(status);
}

}  // namespace

StreamContext::StreamContext(int ordinal, device::Stream stream) : StreamContext(DefaultMemory(ordinal), stream) {}

Status StreamContext::TakeHandles(LibrarySet libraries) {
  if (libraries.blas) CUDAEP_RETURN_IF_ERROR(UnlessMissing(blas().status()));
  if (libraries.dnn) CUDAEP_RETURN_IF_ERROR(UnlessMissing(dnn().status()));
  return Status::Ok();
}

Result<blas::Handle*> StreamContext::TakeBlas() {
  CUDAEP_ASSIGN_OR_RETURN(blas_, LeaseBlas(memory_));
  return blas_.get();
}

Result<dnn::Handle*> StreamContext::TakeDnn() {
  CUDAEP_ASSIGN_OR_RETURN(dnn_, LeaseDnn(memory_, stream_));
  return dnn_.get();
}

Status StreamContext::ReadBack(const void* device_source, size_t bytes, void* destination) {
  if (bytes > kReadBackBytes) return Internal("reads back ", bytes, " bytes, ", kReadBackBytes, " are offered");
  if (!read_back_) CUDAEP_RETURN_IF_ERROR(device::HostMalloc(read_back_.Receive(), kReadBackBytes));
  CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(read_back_.get(), device_source, bytes, stream_));
  CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(stream_));
  std::memcpy(destination, read_back_.get(), bytes);
  return Status::Ok();
}

Result<CopyStream*> StreamContext::copies() {
  if (!copies_.exists()) CUDAEP_RETURN_IF_ERROR(copies_.Create());
  return &copies_;
}

}  // namespace cudaep
