// Linear quantization of floats to 8-bit integers and back where a thread's quads share their scales, which is what
// most models have of it: a kernel for each pair of types, so that no load waits for a switch and all of them set out
// together.
#pragma once

#include "kernels/quant/linear.cuh"

namespace cudaep::kernels {

// False where types, scales or precision are others: nothing is launched. `config`: ForEachSlice's.
bool LaunchBytesQuantize(ScaleWalk walk, const LinearCall& call, const device::LaunchConfig& config,
                         device::Stream stream, Status* status);
bool LaunchBytesDequantize(ScaleWalk walk, const LinearCall& call, const device::LaunchConfig& config,
                           device::Stream stream, Status* status);

}  // namespace cudaep::kernels
