// device/growable_memory.h on the simulated device: one allocation whose end moves.
#include "device/growable_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/checked_math.h"
#include "device/sim/simulator.h"

namespace cudaep::device {

using sim::CallKind;
using sim::Lock;
using sim::Simulator;

struct GrowableMemoryHandle {
  int ordinal = 0;
  uint64_t era = 0;  // of the simulator: a later one has dropped the memory
  sim::Allocation* allocation = nullptr;
  size_t reserved = 0;
  std::vector<bool> mapped;  // by step

  // What lies behind the last step that is mapped is not there any more.
  size_t DropUnmappedEnd() {
    while (!mapped.empty() && !mapped.back()) mapped.pop_back();
    return mapped.size() * kGrowableStepBytes;
  }
};

namespace {

constexpr size_t kFreshBytes = 4096;

sim::Heap& HeapOf(Simulator& simulator, GrowableMemory memory) {
  return *simulator.devices[static_cast<size_t>(memory->ordinal)].heap;
}

}  // namespace

Status GrowableCreate(GrowableMemory* memory, int ordinal, size_t most_bytes) {
  *memory = nullptr;
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_RETURN_IF_ERROR(simulator.Enter(CallKind::kOther, ordinal));
  const size_t reserved = AlignUp(most_bytes, kGrowableStepBytes);
  sim::Allocation* allocation =
      simulator.devices[static_cast<size_t>(ordinal)].heap->Reserve(reserved, simulator.calls);
  if (allocation == nullptr)
    return NotSupported("simulated device ", ordinal, " has no addresses for ", reserved, " bytes");
  *memory = new GrowableMemoryHandle{ordinal, simulator.era, allocation, reserved, {}};
  return Status::Ok();
}

void* GrowableBase(GrowableMemory memory) { return reinterpret_cast<void*>(memory->allocation->begin); }
size_t GrowableEnd(GrowableMemory memory) { return memory->allocation->bytes; }

Status GrowableExtend(GrowableMemory memory, size_t bytes) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_RETURN_IF_ERROR(simulator.Enter(CallKind::kMalloc, memory->ordinal));
  CUDAEP_RETURN_IF_ERROR(simulator.CheckCaptures("GrowableExtend"));
  ++simulator.devices[static_cast<size_t>(memory->ordinal)].counters.device_allocations;
  sim::Heap& heap = HeapOf(simulator, memory);
  sim::Allocation* const allocation = memory->allocation;
  const size_t before = allocation->bytes;
  if (bytes <= before) return Status::Ok();
  if (bytes > memory->reserved || simulator.faults.NextAllocationFails() || !heap.TakeBytes(bytes - before)) {
    return OutOfMemory("simulated device ", memory->ordinal, ": ", bytes - before, " bytes requested, ",
                       heap.capacity() - heap.used(), " of ", heap.capacity(), " free");
  }
  heap.Resize(allocation, bytes);
  memory->mapped.resize(bytes / kGrowableStepBytes, true);
  return Status::Ok();
}

Status GrowableMove(GrowableMemory memory, size_t from, size_t to, size_t bytes) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_RETURN_IF_ERROR(simulator.Enter(CallKind::kOther, memory->ordinal));
  if (to + bytes > memory->reserved)
    return OutOfMemory("the reserved addresses end after ", memory->reserved, " bytes");
  sim::Heap& heap = HeapOf(simulator, memory);
  sim::Allocation* const allocation = memory->allocation;
  if (to + bytes > allocation->bytes) {
    heap.Resize(allocation, to + bytes);
    memory->mapped.resize((to + bytes) / kGrowableStepBytes);
  }
  for (size_t i = 0; i < bytes; i += kGrowableStepBytes) {
    const size_t source = (from + i) / kGrowableStepBytes, target = (to + i) / kGrowableStepBytes;
    if (!memory->mapped[source] || memory->mapped[target]) {
      return InvalidArgument("step ", source, " of growable memory cannot move to step ", target);
    }
    memory->mapped[source] = false;
    memory->mapped[target] = true;
  }
  simulator.accesses.Forget(allocation->begin + from, allocation->begin + from + bytes);
  madvise(reinterpret_cast<void*>(allocation->begin + from), bytes, MADV_DONTNEED);
  // Only the beginnings: an arena moves far more than tests touch.
  for (size_t i = 0; i < bytes; i += kGrowableStepBytes) {
    std::memset(reinterpret_cast<void*>(allocation->begin + to + i), sim::kFreshByte, kFreshBytes);
  }
  heap.Resize(allocation, memory->DropUnmappedEnd());
  return Status::Ok();
}

Status GrowableTrim(GrowableMemory memory, size_t bytes) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  const size_t kept = AlignUp(bytes, kGrowableStepBytes) / kGrowableStepBytes;
  sim::Allocation* const allocation = memory->allocation;
  if (kept >= memory->mapped.size()) return Status::Ok();
  Status status = simulator.Enter(CallKind::kFree, memory->ordinal);
  if (!status.ok() && status.code() != StatusCode::kDeviceLost) return status;
  CUDAEP_RETURN_IF_ERROR(simulator.CheckCaptures("GrowableTrim"));
  ++simulator.devices[static_cast<size_t>(memory->ordinal)].counters.device_frees;
  sim::Heap& heap = HeapOf(simulator, memory);
  const Status zones = heap.CheckRedZone(*allocation);
  const size_t given = static_cast<size_t>(
      std::count(memory->mapped.begin() + static_cast<ptrdiff_t>(kept), memory->mapped.end(), true));
  memory->mapped.resize(kept);
  const size_t end = memory->DropUnmappedEnd();
  simulator.accesses.Forget(allocation->begin + end, allocation->end());
  heap.Resize(allocation, end);
  heap.GiveBytes(given * kGrowableStepBytes);
  return status.ok() ? zones : status;
}

Status GrowableDestroy(GrowableMemory memory) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  if (memory->era == simulator.era) {
    simulator.WaitForDevice(lock, memory->ordinal).IgnoreError();
    simulator.accesses.Forget(memory->allocation->begin, memory->allocation->end());
    const auto steps = static_cast<size_t>(std::count(memory->mapped.begin(), memory->mapped.end(), true));
    HeapOf(simulator, memory).GiveBytes(steps * kGrowableStepBytes);
    HeapOf(simulator, memory).Release(memory->allocation, simulator.calls);
  }
  delete memory;
  return Status::Ok();
}

}  // namespace cudaep::device
