// Device memory behind addresses that are reserved once: it is mapped in steps, grows and shrinks at its end, and steps
// that lie idle in the middle can be taken to where they are needed.
//
// What grows this way stays one piece: an arena over it has no borders between regions and need not stay fragmented.
// Like device/device.h it has an implementation for GPUs (the driver's virtual memory management) and one for the
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
// Where what is mapped ends, counted from the base.
size_t GrowableEnd(GrowableMemory memory);
// Maps memory up to `bytes`, a multiple of the step. kOutOfMemory: as before.
Status GrowableExtend(GrowableMemory memory, size_t bytes);
// Takes the mapped memory of [from, from + bytes) to [to, to + bytes), which is not mapped; the addresses it leaves are
// not mapped any more, its contents are lost. All are multiples of the step; no work may use the memory.
Status GrowableMove(GrowableMemory memory, size_t from, size_t to, size_t bytes);
// Unmaps what lies at `bytes` or behind, rounded up to the step; no work may use it any more.
Status GrowableTrim(GrowableMemory memory, size_t bytes);
// Waits for the device and unmaps everything.
Status GrowableDestroy(GrowableMemory memory);

struct GrowableTraits {
  using Type = GrowableMemory;
  static Type Null() { return nullptr; }
  static void Release(Type memory) { GrowableDestroy(memory).IgnoreError(); }
};
using UniqueGrowableMemory = UniqueHandle<GrowableTraits>;

}  // namespace cudaep::device
