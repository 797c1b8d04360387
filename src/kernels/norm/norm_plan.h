// How normalisation spreads rows over blocks: pure host policy.
//
//   kDirect   the threads of one block hold the row in registers; each has a row, and the block ends with it;
//   kBatch    the same for a few rows, which come through shared memory and share scale and shift: 16-bit rows, which
//             instructions bound rather than memory;
//   kRing     the row waits in a ring in shared memory, of a block or of the blocks of a cluster, which exchange their
//             moments. Where rows are many and two or three such blocks fit a multiprocessor, each cluster has a row
//             or, to hold a scale for them, a few; else a grid that covers the device once goes on from row to row, and
//             what follows is on its way;
//   kStream   rows that are longer still are read twice.
#pragma once

#include <cstdint>
#include <optional>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr unsigned kNormThreads = 512;  // of a block at most, so that two may have 64 registers a thread
inline constexpr int kNormPacks = 4;           // that a thread of a large problem holds at once
inline constexpr int kNormSlots = 16;          // of a warp's ring, at most
inline constexpr int kNormBatch = 4;           // rows of a batch, at most
inline constexpr int kHeldSlots = 2;           // of which a thread can keep scale and shift in registers
inline constexpr int kNormCluster = 8;         // blocks that share a row, at most

// Threads of a multiprocessor that have their registers at once in a kernel of batches.
constexpr int BatchThreadsAtOnce(bool skip) { return skip ? 512 : 640; }

struct NormPlan {
  enum class Kind : uint8_t { kDirect, kBatch, kRing, kStream };
  Kind kind = Kind::kDirect;
  int pack = 1;                 // elements of one access
  int packs_per_thread = 1;     // kDirect: 1 or kNormPacks; without packs kScalarPacks
  unsigned width = 32;          // threads of one row, or of one block's part of it
  unsigned rows_per_block = 1;  // kDirect: 1 unless width <= 32; kBatch: batches, likewise
  unsigned cluster = 1;         // kRing: blocks that share a row
  int slots = 1;                // kRing: that a warp has of a row, kNormPacks packs for each lane
  int depth = 1;                // kRing: that it holds; kBatch: rows of a batch
  bool held = false;            // kRing: scale and shift stay in registers
  int64_t blocks = 0;
};

struct NormProblem {
  DataType x_type = DataType::kUndefined, y_type = DataType::kUndefined;
  int64_t rows = 0, elems = 0;
  bool whole_rows = true;    // scale and shift have one value for each column, so that they can be read in packs
  bool same_affine = false;  // all rows share a scale for each column, and perhaps a shift (which kRms never has)
  bool skip = false;         // a second tensor is added
};

// `forced`: the kind that a test or a measurement wants; kInvalidArgument where the problem does not allow it.
// Without `packed` elements are accessed one by one.
Result<NormPlan> PlanNorm(const NormProblem& problem, const device::DeviceInfo& device, bool packed = true,
                          std::optional<NormPlan::Kind> forced = {});

}  // namespace cudaep::kernels
