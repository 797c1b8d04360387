// Inputs of com.microsoft's MatMulNBits, as passes name them.
#pragma once

#include <cstddef>

namespace cudaep::graph::nbits {

enum Input : size_t { kA, kB, kScales, kZeroPoints, kGroups, kBias, kInputs };

}  // namespace cudaep::graph::nbits
