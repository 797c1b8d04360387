// Rows of a quantized tensor, gathered by index and dequantized on the way.
#pragma once

#include "kernels/quant/linear.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kGatherQuantizedTypes =
    kQuantFloats | DataTypeSet{DataType::kUint2, DataType::kUint4, DataType::kInt4, DataType::kUint8};

// The data is [outer, axis, inner]; the result [outer, indices, inner] of y_type. A negative index counts from the end;
// one outside of the axis gives zeros.
struct GatherQuantized {
  const void* data = nullptr;
  const void* indices = nullptr;
  const void* scale = nullptr;
  const void* zero_point = nullptr;  // null: default_zero
  void* y = nullptr;
  DataType type = DataType::kInt4;  // of data and zero points; also what bytes are taken for that hold several
  DataType index_type = DataType::kInt64, y_type = DataType::kFloat;  // y's is the scales' too
  int64_t outer = 0, axis = 0, inner = 0, count = 0;
  QuantScales scales;  // over the data
  // Zero points of the last dimension start with a byte: so many belong to a row of so many scales.
  int64_t scale_row = 1, zero_row = 1;
  float default_zero = 0;
};

Status LaunchGatherQuantized(const GatherQuantized& args, device::Stream stream);

}  // namespace cudaep::kernels
