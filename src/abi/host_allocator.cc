#include "abi/host_allocator.h"

#include "abi/allocation_failure.h"
#include "abi/api_version.h"
#include "abi/session_state.h"
#include "abi/thunk.h"
#include "core/log.h"

namespace cudaep::abi {
namespace {

void* ValueOrNull(Result<void*> pointer) {
  if (pointer.ok()) return pointer.value();
  Log(LogLevel::kError, pointer.status().ToString());
  NoteAllocationFailure(pointer.status());
  return nullptr;
}

}  // namespace

Result<HostAllocator*> HostAllocator::Create(memory::DeviceMemory& memory, const OrtMemoryInfo* info,
                                             std::shared_ptr<const std::atomic<bool>> spread) {
  // Page-locked memory is read and written by the CPU too, which no stream orders: its allocator learns of copies.
  if (Host().ort->MemoryInfoGetDeviceMemType(info) == OrtDeviceMemoryType_HOST_ACCESSIBLE) {
    return new HostAllocator(memory.pinned(), info, nullptr, nullptr, true);
  }
  OrtAllocatorType type = OrtDeviceAllocator;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->MemoryInfoGetType(info, &type));
  const bool tensors = type != OrtReadOnlyAllocator;
  return new HostAllocator(tensors ? memory.tensors() : memory.weights(), info, &memory, std::move(spread), tensors);
}

HostAllocator::HostAllocator(std::shared_ptr<memory::Allocator> allocator, const OrtMemoryInfo* info,
                             memory::DeviceMemory* memory, std::shared_ptr<const std::atomic<bool>> spread,
                             bool serves_tensors)
    : OrtAllocator{},
      allocator_(std::move(allocator)),
      info_(info),
      memory_(memory),
      spread_(std::move(spread)),
      serves_tensors_(serves_tensors),
      counts_(!Host().allocators_outlive_sessions) {
  version = Host().version;
  Alloc = Thunk<&HostAllocator::OnAlloc>();
  Free = Thunk<&HostAllocator::OnFree>();
  Info = Thunk<&HostAllocator::OnInfo>();
  Reserve = Thunk<&HostAllocator::OnReserve>();
  AllocOnStream = Thunk<&HostAllocator::OnAllocOnStream>();
  GetStats = Thunk<&HostAllocator::OnGetStats>();
  if (Host().version >= kApiShrink) Shrink = Thunk<&HostAllocator::OnShrink>();
}

void* HostAllocator::Counted(Result<void*> result) {
  void* const pointer = ValueOrNull(std::move(result));
  if (counts_ && pointer != nullptr) uses_.fetch_add(1, std::memory_order_relaxed);
  return pointer;
}

bool HostAllocator::LetGo() { return uses_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

// On the stream, or for any where it is null; a Run that belongs to a CUDA graph gets all its tensors from the graph.
Result<void*> HostAllocator::Serve(size_t bytes, device::Stream stream) {
  if (memory_ != nullptr && serves_tensors_ && GraphRuns::AnyLive()) [[unlikely]] {
    CUDAEP_ASSIGN_OR_RETURN(const device::Stream graph, GraphRuns::StreamForMemory(memory_));
    if (graph != nullptr) {
      Result<void*> pointer = allocator_->AllocateOnStream(bytes, graph);
      if (!pointer.ok()) GraphRuns::MayBeAbandoned();
      return pointer;
    }
  }
  return stream == nullptr ? allocator_->Allocate(bytes) : allocator_->AllocateOnStream(bytes, stream);
}

void* HostAllocator::OnAlloc(size_t bytes) { return Counted(Serve(bytes, nullptr)); }

void HostAllocator::OnFree(void* pointer) {
  allocator_->Free(pointer);
  if (counts_ && pointer != nullptr && LetGo()) allocator_.reset();
}

void* HostAllocator::OnReserve(size_t bytes) { return Counted(allocator_->Reserve(bytes)); }

void* HostAllocator::OnAllocOnStream(size_t bytes, OrtSyncStream* stream) {
  SessionState::RunAsksForMemory();
  // Host 1.24 passes a stream object without a device stream for copied inputs: whose memory that will be is not said.
  const bool spread = spread_ != nullptr && spread_->load(std::memory_order_relaxed);
  const bool tagged = memory_ != nullptr && stream != nullptr && !spread;
  auto* handle = !tagged ? nullptr : static_cast<device::Stream>(Host().ort->SyncStream_GetHandle(stream));
  return Counted(Serve(bytes, handle));
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
  // More than the host has a name for: seen through a shared allocator, left out by a session's.
  add("MaxTotalAllocated", s.peak_bytes_reserved);
  add("NumDriverFrees", s.driver_frees);
  add("NumStreamWaits", s.stream_waits);
  add("NumSearches", s.searches);
  add("NumFailures", s.failures);
  if (memory_ == nullptr) return Status::Ok();
  const memory::Budget& budget = memory_->budget();
  add("BudgetLimit", static_cast<int64_t>(budget.limit_bytes()));
  add("BudgetCharged", static_cast<int64_t>(budget.charged_bytes()));
  for (const auto& [key, kind] :
       {std::pair("BudgetArena", memory::BudgetKind::kArena), std::pair("BudgetWeights", memory::BudgetKind::kWeights),
        std::pair("BudgetWorkspace", memory::BudgetKind::kWorkspace),
        std::pair("BudgetLibraries", memory::BudgetKind::kLibraries),
        std::pair("BudgetGraphs", memory::BudgetKind::kGraphs)}) {
    add(key, static_cast<int64_t>(budget.charged_bytes(kind)));
  }
  return Status::Ok();
}

Status HostAllocator::OnShrink() {
  return memory_ != nullptr && serves_tensors_ ? memory_->Shrink() : allocator_->Shrink();
}

}  // namespace cudaep::abi
