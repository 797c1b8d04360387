// How normalisation spreads rows over blocks: pure host policy.
//
//   kDirect   the threads of one block hold the row in registers; each has a row, and the block ends with it;
//   kBatch    the same for a few rows, which come through shared memory and share scale and shift: 16-bit rows, which
//             instructions bound rather than memory;
//   kTeam     longer rows that share scale and shift: the blocks of a cluster, which cover the device once, keep their
//             part of both and go on from row to row, some warps summing and the others writing;
//   kRing     a row waits in the shared memory of a block, or of the blocks of a cluster, which exchange their moments;
//             three such blocks share a multiprocessor;
//   kLong     a grid that covers the device once goes on from row to row (kernels/common/long_rows.h): longer rows, and
//             those that are few. A row that the blocks of a cluster have no room for is partly read twice;
//   kStream   a block reads the row twice: long rows that are not read in packs, or come with a second tensor.
#pragma once

#include <cstdint>
#include <optional>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"
#include "kernels/common/long_rows.h"

namespace cudaep::kernels {

inline constexpr unsigned kNormThreads = 512;  // of a block at most, so that two may have 64 registers a thread
inline constexpr int kNormPacks = 4;           // that a thread of a large problem holds at once
inline constexpr int kNormBatch = 4;           // rows of a batch, at most
inline constexpr int kNormCluster = 8;         // blocks that share a row, at most; of a team kTeamCluster
inline constexpr unsigned kRingThreads = 256;  // of a ring's block at most, of which three share a multiprocessor
inline constexpr unsigned kRingBlocks = 3;
inline constexpr int kRingSlots = 4;                       // of a warp, at most
inline constexpr unsigned kTeamThreads = 512;              // of a team's block: half of them sum rows, half write them
inline constexpr unsigned kTeamWarps = kTeamThreads / 64;  // of each half
inline constexpr int kTeamCluster = 16;                    // blocks, at most
inline constexpr int kTeamPacks = 8;                       // that a thread has of a row, at most
inline constexpr int kTeamDepth = 8;                       // rows in shared memory, at most

// Chunks of a long row that stay in registers, which its scale and shift need too.
inline constexpr int kNormHeld = kLongHeld - 1;
// Shared memory that a long row's block takes beside its ring: moments of all warps, of this row and the next.
constexpr size_t LongPartBytes(unsigned cluster) {
  return size_t{2} * (kLongThreads / 32) * cluster * 4 * sizeof(float);
}

// Threads of a multiprocessor that have their registers at once in a kernel of batches.
constexpr int BatchThreadsAtOnce(bool skip) { return skip ? 512 : 640; }

struct NormPlan {
  enum class Kind : uint8_t { kDirect, kBatch, kTeam, kRing, kLong, kStream };
  Kind kind = Kind::kDirect;
  int pack = 1;                 // elements of one access
  int packs_per_thread = 1;     // kDirect: 1 or kNormPacks; without packs kScalarPacks
  unsigned width = 32;          // threads of one row, or of one block's part of it
  unsigned rows_per_block = 1;  // kDirect: 1 unless width <= 32; kBatch: batches, likewise
  unsigned cluster = 1;         // kTeam, kRing, kLong: blocks that share a row
  int piece = 0;                // kTeam: packs that a warp has of a row
  int slots = 1;                // kRing: that a warp has of a row, kNormPacks packs for each lane; kLong: of the ring
  int depth = 1;                // kBatch: rows of a batch; kTeam: rows in shared memory
  bool read_once = true;        // each element, from memory
  int64_t blocks = 0;
};

struct NormProblem {
  DataType x_type = DataType::kUndefined, y_type = DataType::kUndefined;
  int64_t rows = 0, elems = 0;
  bool whole_rows = true;    // scale and shift have one value for each column, so that they can be read in packs
  bool same_affine = false;  // all rows share a scale for each column, and perhaps a shift (which kRms never has)
  bool skip = false;         // a second tensor is added
};

// What a test or a measurement wants; what the problem does not allow is kInvalidArgument.
struct NormChoice {
  std::optional<NormPlan::Kind> kind = {};
  bool clusters = true;  // of several blocks may be planned
};

// Without `packed` elements are accessed one by one.
Result<NormPlan> PlanNorm(const NormProblem& problem, const device::DeviceInfo& device, bool packed = true,
                          const NormChoice& forced = {});

}  // namespace cudaep::kernels
