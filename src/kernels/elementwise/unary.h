// Element-wise functions of one tensor, contiguous in and out.
//
// A function is a functor in one of the unary_*.cu files; its kernels are found by the functor's name and the input's
// type. The output may be the input's buffer when both have the same type.
#pragma once

#include <string_view>

#include "core/data_type.h"
#include "device/device.h"

namespace cudaep::kernels {

struct UnaryArgs {
  const void* x = nullptr;
  void* y = nullptr;
  int64_t elems = 0;
  double alpha = 0, beta = 0;  // what they mean is the functor's business
};

using UnaryKernel = Status (*)(const UnaryArgs& args, device::Stream stream);

// Null when there is no such functor or it has no kernel for the type.
UnaryKernel FindUnaryKernel(std::string_view functor, DataType type);

}  // namespace cudaep::kernels
