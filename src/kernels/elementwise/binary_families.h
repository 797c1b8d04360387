// The files that hold binary functors; FindBinaryKernel asks each in turn.
#pragma once

#include "kernels/elementwise/binary.h"

namespace cudaep::kernels {

BinaryKernel FindArithmeticKernel(std::string_view functor, DataType type);
BinaryKernel FindBinaryActivationKernel(std::string_view functor, DataType type);
BinaryKernel FindComparisonKernel(std::string_view functor, DataType type);
BinaryKernel FindDivisionKernel(std::string_view functor, DataType type);
BinaryKernel FindLogicKernel(std::string_view functor, DataType type);

}  // namespace cudaep::kernels
