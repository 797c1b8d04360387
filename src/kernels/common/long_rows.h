// How kernels that need a whole row at once work on long ones, those that no block has the registers for
// (kernels/common/long_rows.cuh): one row at a time for each block of a grid that covers the device once. Such a block
// has the registers of half a multiprocessor's threads and nearly all of its shared memory, or half of both.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"

namespace cudaep::kernels {

inline constexpr unsigned kLongThreads = 512;  // at most, of a block that works on a long row
inline constexpr int kLongChunk = 4;           // packs that one of its threads handles together
inline constexpr int kLongHeld = 3;            // chunks of a row that stay in registers, at most: 96 KB of a block
inline constexpr int kLongSlots = 7;           // of a chunk each in shared memory, at most: 224 KB of a block

// Bytes of a slot of a block's ring.
constexpr size_t LongSlotBytes(unsigned threads) { return size_t{threads} * kLongChunk * 16; }

// Slots of a block, of which a multiprocessor has `blocks`; 1 to kLongSlots. `other_bytes`: of shared memory that the
// kernel takes beside them and their barriers.
int LongSlots(const device::DeviceInfo& device, unsigned threads, int64_t blocks, size_t other_bytes);

// Blocks, or clusters of them, that share `rows`: as few rounds as `resident` allow, and no more blocks than these
// take.
int64_t LongBlocks(int64_t rows, int64_t resident);

}  // namespace cudaep::kernels
