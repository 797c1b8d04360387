// The files that hold layer normalisation kernels; LaunchLayerNorm chooses among them.
#pragma once

#include "kernels/norm/layer_norm.h"

namespace cudaep::kernels {

Status LaunchLayerNormUniform(const LayerNormArgs& args, device::Stream stream);  // input and output of one type
Status LaunchLayerNormMixed(const LayerNormArgs& args, device::Stream stream);    // fp32 and a 16-bit type

// By a plan of batches, and only by one: 16-bit input and output of one type, pointers that allow packs.
Status LaunchLayerNormBatch(const LayerNormArgs& args, device::Stream stream);

}  // namespace cudaep::kernels
