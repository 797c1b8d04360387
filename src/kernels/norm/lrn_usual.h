// The response normalisation that networks have: windows of five, to the power of -0.75.
#pragma once

#include "kernels/norm/lrn.h"

namespace cudaep::kernels {

// Whether LaunchUsualLrn takes it: pointers allow packs, and the base of the power is sure to be a normal number.
bool IsUsualLrn(const LrnArgs& args);

Status LaunchUsualLrn(const LrnArgs& args, device::Stream stream);

}  // namespace cudaep::kernels
