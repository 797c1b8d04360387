// The recurrent weights packed for fused steps: R as it was, for runs that take a library, and behind it the form of
// each part of a step. Pure but for the packing.
#pragma once

#include <span>

#include "kernels/rnn/fused_step.h"
#include "ops/gemm/matrix_product.h"
#include "ops/rnn/rnn_run.h"

namespace cudaep::ops {

// What a fused step launches.
std::span<const kernels::RnnPart> PartsOf(const RnnProblem& problem);

// Whether runs of some batches would use packed weights. Of the problem only type, cell, directions, hidden and
// linear_before_reset are asked for, here and below.
bool TakesPackedWeights(const RnnProblem& problem, const ProductOptions& options);

// Where the form of PartsOf()[part] starts; of one behind the last: the bytes of all.
size_t PackedOffset(const RnnProblem& problem, size_t part);

Status PackRecurrent(const RnnProblem& problem, const void* r, void* packed, device::Stream stream);

}  // namespace cudaep::ops
