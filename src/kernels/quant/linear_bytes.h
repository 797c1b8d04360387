// Linear quantization of floats to 8-bit integers and back where a thread's quads share their scales, which is what
// most models have of it: a kernel for each pair of types, so that no load waits for a switch and all of them set out
// together.
#pragma once

#include "kernels/quant/linear.cuh"

namespace cudaep::kernels {

// Sets `launched` unless types, scales or precision are others. `config`: ForEachSlice's.
Status LaunchBytesQuantize(ScaleWalk walk, const LinearCall& call, const device::LaunchConfig& config,
                           device::Stream stream, bool* launched);
Status LaunchBytesDequantize(ScaleWalk walk, const LinearCall& call, const device::LaunchConfig& config,
                             device::Stream stream, bool* launched);

}  // namespace cudaep::kernels
