// Element-wise functions of two tensors with numpy broadcasting: arithmetic, comparisons, logic.
//
// A function is a functor in one of the binary_*.cu files; its kernels are found by the functor's name and the inputs'
// type. Arithmetic returns that type, comparisons and logic return bool. The output may be the buffer of an input that
// has the output's shape and type.
#pragma once

#include <string_view>

#include "core/data_type.h"
#include "device/device.h"
#include "kernels/elementwise/broadcast.h"

namespace cudaep::kernels {

struct BinaryArgs {
  const void* a = nullptr;
  const void* b = nullptr;
  void* y = nullptr;
  const Broadcast<2>* broadcast = nullptr;
  double alpha = 0, beta = 0;  // what they mean is the functor's business
};

using BinaryKernel = Status (*)(const BinaryArgs& args, device::Stream stream);

// Null when there is no such functor or it has no kernel for the type.
BinaryKernel FindBinaryKernel(std::string_view functor, DataType type);

}  // namespace cudaep::kernels
