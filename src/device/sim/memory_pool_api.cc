// device.h: memory pools.
#include "device/sim/simulator.h"

namespace cudaep::device {
namespace {

using sim::CallKind;
using sim::Lock;
using sim::Simulator;

// The checks at the start of every call on a pool.
Result<MemoryPoolHandle*> EnterPool(Simulator& simulator, MemoryPool pool, CallKind kind) {
  const auto found = simulator.pools.find(pool);
  if (found == simulator.pools.end()) {
    return InvalidArgument("the memory pool ", static_cast<const void*>(pool), " does not exist");
  }
  CUDAEP_RETURN_IF_ERROR(simulator.Enter(kind, found->second->ordinal));
  return found->second.get();
}

sim::Heap* PoolHeap(Simulator& simulator, const MemoryPoolHandle& pool) {
  return simulator.devices[static_cast<size_t>(pool.ordinal)].heap.get();
}

Status NoMemory(const sim::Heap& heap, size_t bytes, size_t growth, const MemoryPoolHandle& pool) {
  return OutOfMemory("simulated device ", pool.ordinal, ": ", bytes,
                     " bytes requested from a pool, which must grow by ", growth, "; ", heap.capacity() - heap.used(),
                     " of ", heap.capacity(), " free");
}

}  // namespace

void sim::Simulator::ReleaseUnusedPoolMemory(int ordinal) {
  for (const auto& [handle, pool] : pools) {
    if (pool->ordinal == ordinal) pool->Trim(PoolHeap(*this, *pool), pool->release_threshold);
  }
}

Status MemoryPoolCreate(MemoryPool* pool, int ordinal) {
  *pool = nullptr;
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= simulator.devices.size()) {
    return InvalidArgument("no simulated device ", ordinal, "; there are ", simulator.devices.size());
  }
  CUDAEP_RETURN_IF_ERROR(simulator.Enter(CallKind::kPool, ordinal));
  auto made = std::make_shared<MemoryPoolHandle>(ordinal, &simulator.devices[static_cast<size_t>(ordinal)].counters);
  *pool = made.get();
  simulator.pools.emplace(made.get(), std::move(made));
  return Status::Ok();
}

Status MemoryPoolDestroy(MemoryPool pool) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  const auto found = simulator.pools.find(pool);
  if (found == simulator.pools.end()) {
    return InvalidArgument("the memory pool ", static_cast<const void*>(pool), " does not exist");
  }
  Status status = simulator.Enter(CallKind::kOther, found->second->ordinal);
  found->second->destroyed = true;
  found->second->Trim(PoolHeap(simulator, *found->second), 0);
  simulator.pools.erase(found);
  return status;
}

Status MallocFromPoolAsync(void** pointer, size_t bytes, MemoryPool pool, Stream stream) {
  *pointer = nullptr;
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(StreamHandle * target, simulator.EnterStream(CallKind::kMallocAsync, stream));
  const auto found = simulator.pools.find(pool);
  if (found == simulator.pools.end()) {
    return InvalidArgument("the memory pool ", static_cast<const void*>(pool), " does not exist");
  }
  const std::shared_ptr<MemoryPoolHandle> from = found->second;
  if (from->ordinal != target->ordinal) {
    return InvalidArgument("memory of a pool of device ", from->ordinal, " on a stream of device ", target->ordinal);
  }
  if (target->capture != nullptr) {
    return target->capture->Invalidate("stream-ordered allocations are not captured here; allocate before");
  }
  if (bytes == 0) return Status::Ok();
  sim::Heap* heap = PoolHeap(simulator, *from);
  if (bytes > heap->capacity()) return NoMemory(*heap, bytes, bytes, *from);
  const size_t growth = from->Missing(bytes, target->slot, target->clock);
  if (growth != 0 && (simulator.faults.NextAllocationFails() || !heap->TakeBytes(growth))) {
    return NoMemory(*heap, bytes, growth, *from);
  }
  from->Take(bytes, target->slot, target->clock, growth);
  sim::Allocation* allocation = heap->Allocate(bytes, simulator.calls, from);
  if (allocation == nullptr) {
    from->Return(heap, bytes);
    return OutOfMemory("simulated device ", from->ordinal, ": no addresses are left for ", bytes, " bytes");
  }
  allocation->stream_ordered = true;
  std::vector<sim::Access> accesses{{allocation->begin, bytes, true, true}};
  Status status = simulator.Submit(lock, target, sim::Work{sim::AllocateWork{}, target->ordinal, std::move(accesses)});
  if (!status.ok()) {
    from->Return(heap, bytes);
    heap->Release(allocation, simulator.calls);
    return status;
  }
  *pointer = reinterpret_cast<void*>(allocation->begin);
  return Status::Ok();
}

Status MemoryPoolSetReleaseThreshold(MemoryPool pool, size_t bytes) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(MemoryPoolHandle * target, EnterPool(simulator, pool, CallKind::kPool));
  target->release_threshold = bytes;
  return Status::Ok();
}

Status MemoryPoolTrim(MemoryPool pool, size_t bytes_to_keep) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(MemoryPoolHandle * target, EnterPool(simulator, pool, CallKind::kPool));
  target->Trim(PoolHeap(simulator, *target), bytes_to_keep);
  return Status::Ok();
}

Status MemoryPoolGetStats(MemoryPool pool, MemoryPoolStats* stats) {
  *stats = MemoryPoolStats();
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(MemoryPoolHandle * target, EnterPool(simulator, pool, CallKind::kPool));
  *stats = {target->reserved, target->used};
  return Status::Ok();
}

}  // namespace cudaep::device
