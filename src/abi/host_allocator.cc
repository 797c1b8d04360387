#include "abi/host_allocator.h"

#include "abi/api_version.h"
#include "abi/thunk.h"
#include "core/log.h"

namespace cudaep::abi {
namespace {

void* ValueOrNull(Result<void*> pointer) {
  if (pointer.ok()) return pointer.value();
  Log(LogLevel::kError, pointer.status().ToString());
  return nullptr;
}

}  // namespace

HostAllocator::HostAllocator(std::shared_ptr<memory::Allocator> allocator, const OrtMemoryInfo* info)
    : OrtAllocator{}, allocator_(std::move(allocator)), info_(info) {
  version = Host().version;
  Alloc = Thunk<&HostAllocator::OnAlloc>();
  Free = Thunk<&HostAllocator::OnFree>();
  Info = Thunk<&HostAllocator::OnInfo>();
  Reserve = Thunk<&HostAllocator::OnReserve>();
  AllocOnStream = Thunk<&HostAllocator::OnAllocOnStream>();
  GetStats = Thunk<&HostAllocator::OnGetStats>();
  if (Host().version >= kApiShrink) Shrink = Thunk<&HostAllocator::OnShrink>();
}

void* HostAllocator::OnAlloc(size_t bytes) { return ValueOrNull(allocator_->Allocate(bytes)); }

void HostAllocator::OnFree(void* pointer) { allocator_->Free(pointer); }

void* HostAllocator::OnReserve(size_t bytes) { return ValueOrNull(allocator_->Reserve(bytes)); }

void* HostAllocator::OnAllocOnStream(size_t bytes, OrtSyncStream* stream) {
  // Host 1.24 passes a stream object without a device stream for copied inputs: whose memory that will be is not said.
  auto* handle = stream == nullptr ? nullptr : static_cast<device::Stream>(Host().ort->SyncStream_GetHandle(stream));
  if (handle == nullptr) return OnAlloc(bytes);
  return ValueOrNull(allocator_->AllocateOnStream(bytes, handle));
}

Status HostAllocator::OnGetStats(OrtKeyValuePairs** stats) const {
  const memory::AllocatorStats s = allocator_->Stats();
  Host().ort->CreateKeyValuePairs(stats);
  const auto add = [&](const char* key, int64_t value) {
    Host().ort->AddKeyValuePair(*stats, key, std::to_string(value).c_str());
  };
  // The host's own names for the same figures.
  add("Limit", s.limit_bytes);
  add("InUse", s.bytes_in_use);
  add("TotalAllocated", s.bytes_reserved);
  add("MaxInUse", s.peak_bytes_in_use);
  add("NumAllocs", s.allocations);
  add("NumReserves", s.reserves);
  add("NumArenaExtensions", s.driver_allocations);
  add("NumArenaShrinkages", s.shrinks);
  add("MaxAllocSize", s.largest_allocation_bytes);
  return Status::Ok();
}

Status HostAllocator::OnShrink() { return allocator_->Shrink(); }

}  // namespace cudaep::abi
