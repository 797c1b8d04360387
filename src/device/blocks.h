// Blocks inside allocations: what arenas, workspaces and memory plans hand out of memory they hold.
//
// Saying so costs nothing on a GPU and lets the simulated device check each block as it checks an allocation
// (docs/simulated-device.md). Blocks may lie inside blocks. An allocation with blocks may be used through live ones
// only. Threads: any. What is no memory of a device, or no block, is ignored.
#pragma once

#include <cstddef>

#include "device/device.h"

namespace cudaep::device {

#if defined(CUDAEP_SIMULATED_DEVICE)
inline constexpr bool kChecksBlocks = true;
// [pointer, pointer + bytes) is in use from now on. `stream`: the one whose work its end is ordered with.
void DeclareBlock(const void* pointer, size_t bytes, Stream stream);
// The same of memory that any stream may use.
void DeclareBlock(const void* pointer, size_t bytes);
// The innermost block that starts there ends: no later call uses it. What was queued on its stream may still run; then
// its bytes are overwritten.
void ForgetBlock(const void* pointer);
#else
inline constexpr bool kChecksBlocks = false;
inline void DeclareBlock(const void*, size_t, Stream) {}
inline void DeclareBlock(const void*, size_t) {}
inline void ForgetBlock(const void*) {}
#endif

}  // namespace cudaep::device
