// The process's device memory by configuration: equal configurations share one object while somebody holds it.
//
// A configuration with callbacks of the caller or with debug settings is never shared: whoever asks gets an own object.
// Threads: all functions may be called from any thread; askers for one configuration get one object.
// Lock order: the registry's lock is taken first and an allocator's inside it. An allocator that is out of memory calls
// ReclaimIdleMemory without a lock of its own, and objects end after the registry's lock is given up, because memory of
// a caller's allocator goes back through callbacks, which may wait for anything.
// Nothing here is destroyed at process exit, so values may be freed by static destructors.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "memory/device_memory.h"

namespace cudaep::memory {

Result<std::shared_ptr<DeviceMemory>> AcquireDeviceMemory(const MemoryConfig& config);

// The arena of page-locked host memory for copies of a device.
std::shared_ptr<Allocator> AcquirePinnedMemory(int ordinal);

// Work just queued on the stream uses page-locked memory of the device's arena, if it is that (Allocator::UsedOn).
void PinnedMemoryUsedOn(int ordinal, const void* pointer, device::Stream stream);

// All that lives: by device and configuration, and the arenas of page-locked memory by ordinal.
struct LiveMemory {
  std::vector<std::shared_ptr<DeviceMemory>> devices;
  std::vector<std::pair<int, std::shared_ptr<Allocator>>> pinned;
};
LiveMemory AllLiveMemory();

// Whether anybody holds device or pinned memory: a session, stream, allocator or value still lives.
bool IsMemoryHeld();

// Idle memory of every tensors' allocator and workspace on the device goes back to the driver; waits for the work that
// may use it.
void ReclaimIdleMemory(int ordinal);

// The caller is about to wait for a stream that any memory of the device may have been used on, and has waited: as
// DeviceMemory's Mark and Reached, for all of them.
class StreamWait {
 public:
  StreamWait(int ordinal, device::Stream stream);
  void Reached();

 private:
  std::vector<std::pair<std::shared_ptr<DeviceMemory>, DeviceMemory::Moment>> moments_;
};

// The stream is about to be destroyed and its work is done: every allocator of the device is told, because a stream
// made outside a session may have been used by any of them.
void StreamEnded(int ordinal, device::Stream stream);

// A stream of the caller's is used by a session that begins or ends. At the end it is waited for, its chunks become
// free for every stream, and after the last session it is forgotten.
void BorrowStream(int ordinal, device::Stream stream);
void ReturnStream(int ordinal, device::Stream stream);

}  // namespace cudaep::memory
