#include "memory/memory_registry.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "memory/device_allocators.h"

namespace cudaep::memory {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::weak_ptr<DeviceMemory>> devices;        // guarded by mutex
  std::map<int, std::weak_ptr<Allocator>> pinned;          // by ordinal; guarded by mutex
  std::map<std::pair<int, device::Stream>, int> borrowed;  // sessions on a caller's stream; guarded by mutex
};

// Never destroyed, as the header says.
Registry& TheRegistry() {
  static auto* const registry = new Registry;
  return *registry;
}

using LiveDevices = std::vector<std::shared_ptr<DeviceMemory>>;

// All objects alive; the others are forgotten. The caller holds the lock, and drops the result after it.
LiveDevices Live(Registry& registry) {
  LiveDevices live;
  std::erase_if(registry.devices, [&](const auto& weak) {
    std::shared_ptr<DeviceMemory> memory = weak.lock();
    if (memory == nullptr) return true;
    live.push_back(std::move(memory));
    return false;
  });
  return live;
}

std::shared_ptr<Allocator> PinnedOf(Registry& registry, int ordinal) {
  std::weak_ptr<Allocator>& known = registry.pinned[ordinal];
  std::shared_ptr<Allocator> pinned = known.lock();
  if (pinned == nullptr) known = pinned = MakePinnedAllocator(ordinal);
  return pinned;
}

LiveDevices LiveOf(int ordinal) {
  LiveDevices live;
  {
    Registry& registry = TheRegistry();
    std::lock_guard lock(registry.mutex);
    live = Live(registry);
  }
  std::erase_if(live, [&](const auto& memory) { return memory->config().ordinal != ordinal; });
  return live;
}

}  // namespace

Result<std::shared_ptr<DeviceMemory>> AcquireDeviceMemory(const MemoryConfig& config) {
  Registry& registry = TheRegistry();
  LiveDevices live;  // outlives the lock: dropping the last reference frees memory
  std::lock_guard lock(registry.mutex);
  live = Live(registry);
  if (config.shareable()) {
    for (const auto& memory : live) {
      if (memory->config() == config) return memory;
    }
  }
  CUDAEP_ASSIGN_OR_RETURN(std::shared_ptr<DeviceMemory> created,
                          DeviceMemory::Create(config, PinnedOf(registry, config.ordinal)));
  registry.devices.push_back(created);
  return created;
}

std::shared_ptr<Allocator> AcquirePinnedMemory(int ordinal) {
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  return PinnedOf(registry, ordinal);
}

void PinnedMemoryUsedOn(int ordinal, const void* pointer, device::Stream stream) {
  std::shared_ptr<Allocator> pinned;
  {
    Registry& registry = TheRegistry();
    std::lock_guard lock(registry.mutex);
    const auto found = registry.pinned.find(ordinal);
    if (found != registry.pinned.end()) pinned = found->second.lock();
  }
  if (pinned != nullptr) pinned->UsedOn(pointer, stream);
}

LiveMemory AllLiveMemory() {
  LiveMemory all;
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  all.devices = Live(registry);
  for (const auto& [ordinal, weak] : registry.pinned) {
    if (auto pinned = weak.lock()) all.pinned.emplace_back(ordinal, std::move(pinned));
  }
  return all;
}

bool IsMemoryHeld() {
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  return std::any_of(registry.devices.begin(), registry.devices.end(),
                     [](const auto& one) { return !one.expired(); }) ||
         std::any_of(registry.pinned.begin(), registry.pinned.end(),
                     [](const auto& one) { return !one.second.expired(); });
}

void ReclaimIdleMemory(int ordinal) {
  for (const auto& memory : LiveOf(ordinal)) memory->Shrink().IgnoreError();
}

StreamWait::StreamWait(int ordinal, device::Stream stream) {
  for (auto& memory : LiveOf(ordinal)) {
    const DeviceMemory::Moment moment = memory->Mark(stream);
    moments_.emplace_back(std::move(memory), moment);
  }
}

void StreamWait::Reached() {
  for (const auto& [memory, moment] : moments_) memory->Reached(moment);
}

void StreamEnded(int ordinal, device::Stream stream) {
  for (const auto& memory : LiveOf(ordinal)) memory->ReleaseStream(stream);
}

void BorrowStream(int ordinal, device::Stream stream) {
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  ++registry.borrowed[{ordinal, stream}];
}

void ReturnStream(int ordinal, device::Stream stream) {
  bool last = false;
  {
    Registry& registry = TheRegistry();
    std::lock_guard lock(registry.mutex);
    const auto found = registry.borrowed.find({ordinal, stream});
    last = found != registry.borrowed.end() && --found->second == 0;
    if (last) registry.borrowed.erase(found);
  }
  StreamWait wait(ordinal, stream);
  device::StreamSynchronize(stream).IgnoreError();
  last ? StreamEnded(ordinal, stream) : wait.Reached();
}

}  // namespace cudaep::memory
