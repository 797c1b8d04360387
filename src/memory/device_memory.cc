#include "memory/device_memory.h"

namespace cudaep::memory {

DeviceMemory::DeviceMemory(const MemoryConfig& config, std::shared_ptr<Allocator> pinned)
    : config_(config), budget_(std::make_shared<Budget>(config.limit_bytes)), pinned_(std::move(pinned)) {}

Result<std::shared_ptr<DeviceMemory>> DeviceMemory::Create(const MemoryConfig& config,
                                                           std::shared_ptr<Allocator> pinned) {
  std::shared_ptr<DeviceMemory> memory(new DeviceMemory(config, std::move(pinned)));
  CUDAEP_ASSIGN_OR_RETURN(memory->allocators_, MakeDeviceAllocators(config, memory->budget_));
  return memory;
}

void DeviceMemory::AddStream(device::Stream stream) {
  allocators_.tensors->AddStream(stream);
  pinned_->AddStream(stream);
}

void DeviceMemory::ExpectCaptures(device::Stream stream) {
  allocators_.tensors->ExpectCaptures(stream);
  pinned_->AddStream(stream);
}

void DeviceMemory::ReleaseStream(device::Stream stream) {
  allocators_.tensors->ReleaseStream(stream);
  pinned_->ReleaseStream(stream);
}

void DeviceMemory::StreamIdle(device::Stream stream) {
  allocators_.tensors->StreamIdle(stream);
  pinned_->StreamIdle(stream);
}

void DeviceMemory::RemoveSession() {
  if (sessions_.fetch_sub(1) != 1) return;
  allocators_.tensors->Shrink().IgnoreError();
  pinned_->Shrink().IgnoreError();
}

}  // namespace cudaep::memory
