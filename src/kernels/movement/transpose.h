// Permutes the dimensions of a tensor.
#pragma once

#include "device/device.h"
#include "kernels/movement/transpose_plan.h"

namespace cudaep::kernels {

// Buffers must not overlap. One launch, or one copy when nothing moves.
Status LaunchTranspose(const TransposePlan& plan, const void* in, void* out, device::Stream stream);

// What it launches for kJoin and kSplit.
Status LaunchInterleave(const TransposePlan& plan, const void* in, void* out, device::Stream stream);

}  // namespace cudaep::kernels
