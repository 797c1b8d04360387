// Powers with numpy broadcasting, base and exponent of different types.
//
// Kernels exist for a base type and the exponent type that PowerExponentType names for it; other exponents are cast to
// that first. Integers to the power of integers are exact and wrap; to a negative one they are 1 / x^n rounded towards
// zero, 0 for x = 0. Integers to the power of floats are computed in fp64 and rounded towards zero.
#pragma once

#include "core/data_type.h"
#include "device/device.h"
#include "kernels/elementwise/binary.h"

namespace cudaep::kernels {

// The exponent type the kernel for this pair reads: `exponent` itself where no cast is needed.
DataType PowerExponentType(DataType base, DataType exponent);

// Null when there is no kernel for the pair. `exponent` is what PowerExponentType returned.
BinaryKernel FindPowerKernel(DataType base, DataType exponent);

}  // namespace cudaep::kernels
