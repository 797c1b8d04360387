// device.h: memory, copies and memsets.
#include <cstring>

#include "device/blocks.h"
#include "device/sim/sanitizers.h"
#include "device/sim/simulator.h"

namespace cudaep::device {
namespace {

using sim::Allocation;
using sim::CallKind;
using sim::Lock;
using sim::Simulator;

uintptr_t AddressOf(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

Status NoMemory(const sim::Heap& heap, size_t bytes, int ordinal) {
  return OutOfMemory("simulated device ", ordinal, ": ", bytes, " bytes requested, ", heap.capacity() - heap.used(),
                     " of ", heap.capacity(), " free");
}

Status AllocateOn(Simulator& simulator, int ordinal, size_t bytes, Allocation** allocation) {
  sim::Heap& heap = *simulator.devices[static_cast<size_t>(ordinal)].heap;
  *allocation = simulator.faults.NextAllocationFails() ? nullptr : heap.Allocate(bytes, simulator.calls);
  return *allocation != nullptr ? Status::Ok() : NoMemory(heap, bytes, ordinal);
}

// The live allocation that starts at `pointer`.
Result<Allocation*> FindStart(Simulator& simulator, void* pointer, bool pinned) {
  sim::Heap* heap = simulator.HeapOf(AddressOf(pointer));
  if (heap == nullptr || (heap == simulator.pinned.get()) != pinned) {
    return InvalidArgument("free of ", pointer, ", which is not ", pinned ? "pinned" : "device", " memory");
  }
  Allocation* allocation = heap->Find(AddressOf(pointer));
  if (allocation == nullptr) return InvalidArgument("free of ", pointer, ", which belongs to no allocation");
  if (allocation->state != Allocation::State::kLive) {
    return InvalidArgument("double free of ", allocation->Describe());
  }
  if (allocation->begin != AddressOf(pointer)) {
    return InvalidArgument("free of ", pointer, " inside ", allocation->Describe());
  }
  return allocation;
}

// CUDA's rule for a plain free: everything that runs is waited for. But where other devices wait for this one in shared
// work, the caller may have still to queue what they wait for.
Status ReleaseNow(Simulator& simulator, Lock& lock, Allocation* allocation) {
  const int owner = simulator.OrdinalOf(allocation->begin);
  for (int i = 0; i < static_cast<int>(simulator.devices.size()); ++i) {
    if (i == owner || !simulator.has_shared_work()) simulator.WaitForDevice(lock, i).IgnoreError();
  }
  sim::Heap* heap = simulator.HeapOf(allocation->begin);
  Status zones = heap->CheckRedZone(*allocation);
  simulator.accesses.Forget(allocation->begin, allocation->end());
  if (allocation->pool != nullptr) allocation->pool->Return(heap, allocation->bytes);
  heap->Release(allocation, simulator.calls);
  return zones;
}

struct Side {
  bool pageable = false;
  bool device = false;
};
Side SideOf(Simulator& simulator, const void* pointer) {
  const sim::Heap* heap = simulator.HeapOf(AddressOf(pointer));
  return {heap == nullptr, heap != nullptr && heap != simulator.pinned.get()};
}

Status Copy(Simulator& simulator, Lock& lock, StreamHandle* stream, void* destination, const void* source,
            size_t bytes) {
  if (bytes == 0) return Status::Ok();
  if (destination == nullptr || source == nullptr) return InvalidArgument("copy of ", bytes, " bytes with a null side");
  const Side to = SideOf(simulator, destination), from = SideOf(simulator, source);
  if (stream->capture != nullptr && (to.pageable || from.pageable)) {
    return stream->capture->Invalidate("a copy with pageable host memory cannot be captured");
  }
  sim::CopyWork copy{destination, source, bytes, sim::Direction::kHostToHost, nullptr};
  if (from.device) copy.direction = to.device ? sim::Direction::kDeviceToDevice : sim::Direction::kDeviceToHost;
  if (!from.device && to.device) copy.direction = sim::Direction::kHostToDevice;
  std::vector<sim::Access> accesses;
  if (!from.pageable) accesses.push_back({AddressOf(source), bytes, false, true});
  if (!to.pageable) accesses.push_back({AddressOf(destination), bytes, true, true});
  if (from.pageable) {
    copy.snapshot = std::make_unique_for_overwrite<std::byte[]>(bytes);
    std::memcpy(copy.snapshot.get(), source, bytes);
  }
  CUDAEP_RETURN_IF_ERROR(
      simulator.Submit(lock, stream, sim::Work{std::move(copy), stream->ordinal, std::move(accesses)}));
  if (!to.pageable && !from.pageable) return Status::Ok();
  for (sim::Counters* counters :
       {&stream->counters, &simulator.devices[static_cast<size_t>(stream->ordinal)].counters}) {
    ++counters->pageable_copies;
    if (to.pageable) ++counters->stream_syncs;
  }
  return to.pageable ? simulator.WaitForStream(lock, stream) : Status::Ok();
}

}  // namespace

Status Malloc(void** pointer, size_t bytes) {
  *pointer = nullptr;
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  int ordinal = 0;
  CUDAEP_RETURN_IF_ERROR(simulator.CurrentDevice(&ordinal));
  CUDAEP_RETURN_IF_ERROR(simulator.Enter(CallKind::kMalloc, ordinal));
  CUDAEP_RETURN_IF_ERROR(simulator.CheckCaptures("Malloc"));
  ++simulator.devices[static_cast<size_t>(ordinal)].counters.device_allocations;
  if (bytes == 0) return Status::Ok();
  Allocation* allocation = nullptr;
  CUDAEP_RETURN_IF_ERROR(AllocateOn(simulator, ordinal, bytes, &allocation));
  *pointer = reinterpret_cast<void*>(allocation->begin);
  return Status::Ok();
}

Status Free(void* pointer) {
  if (pointer == nullptr) return Status::Ok();
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  // A lost device keeps no memory back: the owner is going away and nobody could try again.
  const int ordinal = simulator.OrdinalOf(AddressOf(pointer));
  Status status = simulator.Enter(CallKind::kFree, ordinal);
  if (!status.ok() && status.code() != StatusCode::kDeviceLost) return status;
  CUDAEP_RETURN_IF_ERROR(simulator.CheckCaptures("Free"));
  CUDAEP_ASSIGN_OR_RETURN(Allocation * allocation, FindStart(simulator, pointer, false));
  ++simulator.devices[static_cast<size_t>(ordinal)].counters.device_frees;
  Status zones = ReleaseNow(simulator, lock, allocation);
  return status.ok() ? zones : status;
}

Status MallocAsync(void** pointer, size_t bytes, Stream stream) {
  *pointer = nullptr;
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(StreamHandle * target, simulator.EnterStream(CallKind::kMallocAsync, stream));
  if (target->capture != nullptr) {
    return target->capture->Invalidate("stream-ordered allocations are not captured here; allocate before");
  }
  if (bytes == 0) return Status::Ok();
  Allocation* allocation = nullptr;
  CUDAEP_RETURN_IF_ERROR(AllocateOn(simulator, target->ordinal, bytes, &allocation));
  allocation->stream_ordered = true;
  std::vector<sim::Access> accesses{{allocation->begin, bytes, true, true}};
  Status status = simulator.Submit(lock, target, sim::Work{sim::AllocateWork{}, target->ordinal, std::move(accesses)});
  if (!status.ok()) {
    simulator.HeapOf(allocation->begin)->Release(allocation, simulator.calls);
    return status;
  }
  *pointer = reinterpret_cast<void*>(allocation->begin);
  return Status::Ok();
}

Status FreeAsync(void* pointer, Stream stream) {
  if (pointer == nullptr) return Status::Ok();
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(StreamHandle * target, simulator.EnterStream(CallKind::kFree, stream));
  if (target->capture != nullptr) {
    return target->capture->Invalidate("stream-ordered frees are not captured here; free after the capture");
  }
  CUDAEP_ASSIGN_OR_RETURN(Allocation * allocation, FindStart(simulator, pointer, false));
  std::vector<sim::Access> accesses{{allocation->begin, allocation->bytes, true, true}};
  std::shared_ptr<sim::PoolCredit> credit;
  const auto pool = allocation->pool;
  // Before the submission, which may run the free at once.
  if (pool != nullptr) credit = pool->QueueFree(allocation->bytes, target->slot, target->submitted + 1);
  Status status = simulator.Submit(lock, target,
                                   sim::Work{sim::FreeWork{allocation, credit}, target->ordinal, std::move(accesses)});
  if (!status.ok()) {
    if (pool != nullptr) pool->Revoke(credit);
    return status;
  }
  // Eager and random mode may have run it already.
  if (allocation->state == Allocation::State::kLive) allocation->state = Allocation::State::kFreeQueued;
  if (allocation->died == 0) allocation->died = simulator.calls;
  return Status::Ok();
}

Status HostMalloc(void** pointer, size_t bytes) {
  *pointer = nullptr;
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_RETURN_IF_ERROR(simulator.Enter(CallKind::kHostMalloc, -1));
  CUDAEP_RETURN_IF_ERROR(simulator.CheckCaptures("HostMalloc"));
  ++simulator.host_counters.host_allocations;
  if (bytes == 0) return Status::Ok();
  Allocation* allocation = simulator.pinned != nullptr ? simulator.pinned->Allocate(bytes, simulator.calls) : nullptr;
  if (allocation == nullptr) return OutOfMemory("no ", bytes, " bytes of simulated pinned memory are left");
  *pointer = reinterpret_cast<void*>(allocation->begin);
  return Status::Ok();
}

Status HostFree(void* pointer) {
  if (pointer == nullptr) return Status::Ok();
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_RETURN_IF_ERROR(simulator.Enter(CallKind::kFree, -1));
  CUDAEP_RETURN_IF_ERROR(simulator.CheckCaptures("HostFree"));
  CUDAEP_ASSIGN_OR_RETURN(Allocation * allocation, FindStart(simulator, pointer, true));
  ++simulator.host_counters.host_frees;
  return ReleaseNow(simulator, lock, allocation);
}

Status MemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  int ordinal = 0;
  CUDAEP_RETURN_IF_ERROR(simulator.CurrentDevice(&ordinal));
  CUDAEP_RETURN_IF_ERROR(simulator.Enter(CallKind::kOther, ordinal));
  const sim::Heap& heap = *simulator.devices[static_cast<size_t>(ordinal)].heap;
  *total_bytes = heap.capacity();
  *free_bytes = heap.capacity() - heap.used();
  return Status::Ok();
}

// ---- Blocks inside allocations ----------------------------------------------------------------------------------

namespace {

void Declare(Simulator& simulator, sim::Block block) {
  sim::Heap* heap = simulator.HeapOf(block.begin);
  Allocation* allocation = heap != nullptr ? heap->Find(block.begin) : nullptr;
  if (allocation == nullptr || block.begin == block.end) return;
  if (!allocation->divided) {
    allocation->divided = true;
    sim::PoisonMemory(reinterpret_cast<void*>(allocation->begin), allocation->bytes);
  }
  block.born = ++simulator.calls;
  simulator.accesses.blocks.Declare(block);
  sim::UnpoisonMemory(reinterpret_cast<void*>(block.begin), block.end - block.begin);
}

}  // namespace

void DeclareBlock(const void* pointer, size_t bytes, Stream stream) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  sim::Block block{AddressOf(pointer), AddressOf(pointer) + bytes};
  if (const StreamHandle* found = simulator.Lookup(stream)) {
    block.stream = stream;
    block.stream_id = found->id;
  }
  Declare(simulator, block);
}

void DeclareBlock(const void* pointer, size_t bytes) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  Declare(simulator, {AddressOf(pointer), AddressOf(pointer) + bytes});
}

void ForgetBlock(const void* pointer) {
  if (pointer == nullptr) return;
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  const sim::Block* ended = simulator.accesses.EndBlock(AddressOf(pointer), ++simulator.calls, simulator.host_clock);
  // A graph may go on using what its work was captured with, and what ended meanwhile.
  if (ended == nullptr || ended->stream_id == sim::kNoStream || ended->captured) return;
  StreamHandle* stream = simulator.Lookup(ended->stream);
  if (stream == nullptr || stream->id != ended->stream_id || stream->was_captured) return;
  simulator.OverwriteBlock(lock, stream, *ended);
}

Status GetPointerInfo(const void* pointer, PointerInfo* info) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  *info = PointerInfo();
  sim::Heap* heap = simulator.HeapOf(AddressOf(pointer));
  const Allocation* allocation = heap != nullptr ? heap->Find(AddressOf(pointer)) : nullptr;
  if (allocation == nullptr || allocation->state == Allocation::State::kFreed) return Status::Ok();
  info->kind = heap == simulator.pinned.get() ? PointerKind::kPinnedHost : PointerKind::kDevice;
  const int ordinal = simulator.OrdinalOf(AddressOf(pointer));
  info->ordinal = ordinal >= 0 ? ordinal : 0;
  return Status::Ok();
}

Status MemcpyAsync(void* destination, const void* source, size_t bytes, Stream stream) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(StreamHandle * target, simulator.EnterStream(CallKind::kCopy, stream));
  return Copy(simulator, lock, target, destination, source, bytes);
}

Status MemcpyPeerAsync(void* destination, int destination_ordinal, const void* source, int source_ordinal, size_t bytes,
                       Stream stream) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(StreamHandle * target, simulator.EnterStream(CallKind::kCopy, stream));
  if (bytes != 0 && (simulator.OrdinalOf(AddressOf(destination)) != destination_ordinal ||
                     simulator.OrdinalOf(AddressOf(source)) != source_ordinal)) {
    return InvalidArgument("peer copy: ", destination, " is not memory of device ", destination_ordinal, " or ", source,
                           " not of device ", source_ordinal);
  }
  return Copy(simulator, lock, target, destination, source, bytes);
}

Status MemsetAsync(void* destination, int byte_value, size_t bytes, Stream stream) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(StreamHandle * target, simulator.EnterStream(CallKind::kMemset, stream));
  if (bytes == 0) return Status::Ok();
  std::vector<sim::Access> accesses{{AddressOf(destination), bytes, true, true}};
  return simulator.Submit(
      lock, target, sim::Work{sim::FillWork{destination, byte_value, bytes}, target->ordinal, std::move(accesses)});
}

}  // namespace cudaep::device
