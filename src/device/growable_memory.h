// Device memory behind addresses that are reserved once: whole steps of it are mapped and unmapped anywhere.
//
// An arena over it has no borders between regions, gives idle memory back from the middle and takes it again at the
// end. Like device/device.h it has an implementation for GPUs (the driver's virtual memory management) and one for the
// simulated device. Threads: any, but one at a time for one object.
#pragma once

#include <cstddef>

#include "core/status.h"
#include "core/unique_handle.h"

namespace cudaep::device {

using GrowableMemory = struct GrowableMemoryHandle*;

inline constexpr size_t kGrowableStepBytes = size_t{2} << 20;

// Reserves addresses for `most_bytes` on a device; nothing is mapped yet. kNotSupported where the driver or the device
// cannot do it, kOutOfMemory where no addresses are left.
Status GrowableCreate(GrowableMemory* memory, int ordinal, size_t most_bytes);
void* GrowableBase(GrowableMemory memory);
// Maps new memory at [from, from + bytes) behind the base, all of it or none. Both are multiples of the step, and
// nothing is mapped there. kOutOfMemory: the device has none left, or the addresses end.
Status GrowableMap(GrowableMemory memory, size_t from, size_t bytes);
// Gives the memory of [from, from + bytes) back, all of which is mapped; no work may use it any more. After a failure
// all of it is still mapped.
Status GrowableUnmap(GrowableMemory memory, size_t from, size_t bytes);
// Waits for the device and unmaps everything.
Status GrowableDestroy(GrowableMemory memory);

struct GrowableTraits {
  using Type = GrowableMemory;
  static Type Null() { return nullptr; }
  static void Release(Type memory) { GrowableDestroy(memory).IgnoreError(); }
};
using UniqueGrowableMemory = UniqueHandle<GrowableTraits>;

}  // namespace cudaep::device
