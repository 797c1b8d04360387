// Determinants of square matrices, by elimination with partial pivoting in fp64. A NaN makes the result NaN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/data_type.h"
#include "device/device.h"

namespace cudaep::kernels {

struct DeterminantArgs {
  DataType type = DataType::kUndefined;  // any of kFloatTypes
  const void* x = nullptr;               // `matrices` of rows * rows elements
  void* y = nullptr;                     // one element each
  double* scratch = nullptr;             // as many as x
  int64_t matrices = 0, rows = 0;
};

// One launch, a block for each matrix.
Status LaunchDeterminant(const DeterminantArgs& args, device::Stream stream);

}  // namespace cudaep::kernels
