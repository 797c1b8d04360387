// Inverses of square matrices, by elimination with partial pivoting in fp64. A matrix without one gives infinities and
// NaN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

struct InverseArgs {
  DataType type = DataType::kUndefined;  // any of kFloatTypes
  const void* x = nullptr;               // `matrices` of rows * rows elements
  void* y = nullptr;                     // the same
  double* scratch = nullptr;             // twice as many
  int64_t matrices = 0, rows = 0;
};

// One launch, a block for each matrix.
Status LaunchInverse(const InverseArgs& args, device::Stream stream);

}  // namespace cudaep::kernels
