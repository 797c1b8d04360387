// The files that hold unary functors; FindUnaryKernel asks each in turn.
#pragma once

#include "kernels/elementwise/unary.h"

namespace cudaep::kernels {

UnaryKernel FindActivationKernel(std::string_view functor, DataType type);
UnaryKernel FindGeluKernel(std::string_view functor, DataType type);
UnaryKernel FindMathKernel(std::string_view functor, DataType type);
UnaryKernel FindPredicateKernel(std::string_view functor, DataType type);
UnaryKernel FindRoundingKernel(std::string_view functor, DataType type);
UnaryKernel FindTrigonometryKernel(std::string_view functor, DataType type);

}  // namespace cudaep::kernels
