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

void DeviceMemory::AddStream(device::Stream stream) { allocators_.tensors->AddStream(stream); }

void DeviceMemory::ExpectCaptures(device::Stream stream) {
  allocators_.tensors->ExpectCaptures(stream);
  pinned_->ExpectCaptures(stream);
}

Status DeviceMemory::BelongToGraph(device::Stream stream) {
  CUDAEP_RETURN_IF_ERROR(allocators_.tensors->BelongToGraph(stream));
  pinned_->ExpectCaptures(stream);
  return Status::Ok();
}

void DeviceMemory::ReleaseStream(device::Stream stream) {
  allocators_.tensors->ReleaseStream(stream);
  pinned_->ReleaseStream(stream);
}

DeviceMemory::Moment DeviceMemory::Mark(device::Stream stream) {
  return {allocators_.tensors->Mark(stream), pinned_->Mark(stream)};
}

void DeviceMemory::Reached(const Moment& moment) {
  allocators_.tensors->Reached(moment.tensors);
  pinned_->Reached(moment.pinned);
}

void DeviceMemory::AddKept(KeptMemory* kept) {
  std::lock_guard lock(kept_mutex_);
  kept_.push_back(kept);
}

void DeviceMemory::RemoveKept(KeptMemory* kept) {
  std::lock_guard lock(kept_mutex_);
  std::erase(kept_, kept);
}

DeviceMemory::Statistics DeviceMemory::Stats() const {
  Statistics stats{.tensors = allocators_.tensors->Stats(), .weights = {}, .workspaces = {}};
  if (config_.is_external()) return stats;
  stats.weights = allocators_.weights->Stats();
  stats.workspaces = allocators_.workspaces->Stats();
  return stats;
}

Status DeviceMemory::Shrink() {
  std::vector<std::shared_ptr<void>> idle;  // freed without the lock: callbacks of the caller may wait for anything
  {
    std::lock_guard lock(kept_mutex_);
    for (KeptMemory* kept : kept_) kept->PopIdle(&idle);
  }
  idle.clear();
  return allocators_.tensors->Shrink();
}

void DeviceMemory::RemoveSession() {
  if (sessions_.fetch_sub(1) != 1) return;
  Shrink().IgnoreError();
  pinned_->Shrink().IgnoreError();
}

}  // namespace cudaep::memory
