// device/growable_memory.h on the simulated device: one allocation that ends where the last mapped
// step does.
#include "device/growable_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/checked_math.h"
#include "device/sim/sanitizers.h"
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

// What is filled of each step: an arena maps far more than tests touch.
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

Status GrowableMap(GrowableMemory memory, size_t from, size_t bytes) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_RETURN_IF_ERROR(simulator.Enter(CallKind::kMalloc, memory->ordinal));
  CUDAEP_RETURN_IF_ERROR(simulator.CheckCaptures("GrowableMap"));
  ++simulator.devices[static_cast<size_t>(memory->ordinal)].counters.device_allocations;
  sim::Heap& heap = HeapOf(simulator, memory);
  sim::Allocation* const allocation = memory->allocation;
  if (from + bytes > memory->reserved)
    return OutOfMemory("the reserved addresses end after ", memory->reserved, " bytes");
  const size_t first = from / kGrowableStepBytes, end = first + bytes / kGrowableStepBytes;
  const size_t known = memory->mapped.size();
  for (size_t step = first; step < std::min(end, known); ++step) {
    if (memory->mapped[step]) return InvalidArgument("step ", step, " of growable memory is mapped already");
  }
  if (simulator.faults.NextAllocationFails() || !heap.TakeBytes(bytes)) {
    return OutOfMemory("simulated device ", memory->ordinal, ": ", bytes, " bytes requested, ",
                       heap.capacity() - heap.used(), " of ", heap.capacity(), " free");
  }
  if (end > known) {
    heap.Resize(allocation, from + bytes);
    memory->mapped.resize(end);
  }
  for (size_t step = first; step < end; ++step) {
    memory->mapped[step] = true;
    if (step >= known) continue;
    auto* const fresh = reinterpret_cast<void*>(allocation->begin + step * kGrowableStepBytes);
    sim::UnpoisonMemory(fresh, kGrowableStepBytes);
    std::memset(fresh, sim::kFreshByte, kFreshBytes);
    if (allocation->divided) sim::PoisonMemory(fresh, kGrowableStepBytes);
  }
  return Status::Ok();
}

Status GrowableUnmap(GrowableMemory memory, size_t from, size_t bytes) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  Status status = simulator.Enter(CallKind::kFree, memory->ordinal);
  if (!status.ok() && status.code() != StatusCode::kDeviceLost) return status;
  CUDAEP_RETURN_IF_ERROR(simulator.CheckCaptures("GrowableUnmap"));
  ++simulator.devices[static_cast<size_t>(memory->ordinal)].counters.device_frees;
  sim::Heap& heap = HeapOf(simulator, memory);
  sim::Allocation* const allocation = memory->allocation;
  const size_t first = from / kGrowableStepBytes, end = first + bytes / kGrowableStepBytes;
  for (size_t step = first; step < end; ++step) {
    if (step >= memory->mapped.size() || !memory->mapped[step]) {
      return InvalidArgument("step ", step, " of growable memory is not mapped");
    }
  }
  const Status zones = heap.CheckRedZone(*allocation);
  for (size_t step = first; step < end; ++step) memory->mapped[step] = false;
  simulator.accesses.Forget(allocation->begin + from, allocation->begin + from + bytes);
  auto* const gone = reinterpret_cast<void*>(allocation->begin + from);
  madvise(gone, bytes, MADV_DONTNEED);
  sim::PoisonMemory(gone, bytes);
  heap.Resize(allocation, memory->DropUnmappedEnd());
  heap.GiveBytes(bytes);
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
