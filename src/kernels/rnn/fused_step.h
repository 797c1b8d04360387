// A step of a recurrent network in one launch: the product with the recurrent weights, by tensor cores, and what
// follows.
//
// A block owns some units of the state, as many as have 16 rows of weights, and all rows of the batch: 16 x hidden
// weights, packed so that each thread holds its part in registers. It loads them, and what the input's product gives
// its units, while the step before is still running, and then reads that step's state once. Warps share the inner
// dimension; their sums are added in a fixed order. The product's sums stay fp32 also for 16-bit floats.
//
// Weights must be constant: they are read ahead of everything that was launched before.
// Devices: 8.0 and newer (fp32 as TF32, fp16, bf16).
#pragma once

#include "kernels/rnn/rnn.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kFusedRnnTypes = kFloatTypesNoDouble;

// What one launch computes: a whole step or, of a GRU that resets first, one of its halves.
enum class RnnPart : uint8_t { kLstm, kGru, kGruReset, kGruProposal, kRnn };

// Whether a block can hold its weights.
bool FitsFusedStep(DataType type, int64_t hidden);

// Bytes of a part's packed weights of all directions.
size_t FusedWeightBytes(RnnPart part, DataType type, int64_t directions, int64_t hidden);
// Packs R, [directions, gates * hidden, hidden] of all the cell's gates. fp32 weights are rounded to TF32.
Status LaunchFusedPack(RnnPart part, DataType type, int64_t directions, int64_t hidden, const void* r, void* packed,
                       device::Stream stream);

// Bytes of a state as the product reads it. It starts as zeros; LaunchRnnStart and steps write it as `next_rows`.
size_t FusedRowBytes(const RnnShape& shape, DataType type);

struct FusedOperands {
  const void* weights = nullptr;  // of the part, packed
  const void* rows = nullptr;     // the state before the step, or what GruReset made of it; not at.next_rows
};

// `at` has no products but that of the input. kGruReset writes z to at.c and r * h to at.next_rows alone.
Status LaunchFusedStep(RnnPart part, const RnnShape& shape, DataType type, const RnnPointers& at,
                       const FusedOperands& operands, int64_t step, device::Stream stream);

}  // namespace cudaep::kernels
