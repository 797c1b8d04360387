// Linear quantization: y = saturate(round(x / scale) + zero point), and y = (x - zero point) * scale back.
//
// Rounding is to nearest, ties to even; integers saturate, and NaN becomes the lowest of them. To floats of 4 and 8
// bits the quotient is rounded after the zero point is added.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"
#include "kernels/common/narrow_types.h"

namespace cudaep::kernels {

// The tensor is [outer, axis, inner]; its element (o, a, i) has scale and zero point number
// o * outer_stride + a / block * block_stride + i * inner_stride. All of it is 1 and 0 for one scale.
struct QuantScales {
  int64_t axis = 1, inner = 1, block = 1;
  int64_t outer_stride = 0, block_stride = 0, inner_stride = 0;

  bool uniform() const { return outer_stride == 0 && block_stride == 0 && inner_stride == 0; }
};

inline constexpr DataTypeSet kQuantSources = kFloatTypesNoDouble | DataTypeSet(DataType::kInt32);
inline constexpr DataTypeSet kQuantScaleTypes = kFloatTypesNoDouble | DataTypeSet(DataType::kFloat8E8M0);
inline constexpr DataTypeSet kQuantInts = kNarrowInts | kInt8Types | DataTypeSet{DataType::kInt16, DataType::kUint16};
inline constexpr DataTypeSet kQuantFloats = kFloat8Types | DataTypeSet(DataType::kFloat4E2M1);

struct QuantArgs {
  const void* x = nullptr;
  const void* scale = nullptr;
  const void* zero_point = nullptr;  // of y's type, or x's back; null: zero
  void* y = nullptr;
  DataType x_type = DataType::kFloat, scale_type = DataType::kFloat, y_type = DataType::kUint8;
  int64_t elems = 0;
  QuantScales scales;
  // Quantization only. float16 or bfloat16: x, scale and quotient are rounded to it. Else the quotient is fp32, and of
  // int32 exact.
  DataType precision = DataType::kFloat;
  bool saturate = true;  // to floats of 8 bits
};

// x of kQuantSources, scale of those or kQuantScaleTypes, y of kQuantInts or kQuantFloats.
Status LaunchQuantize(const QuantArgs& args, device::Stream stream);

// x of kQuantInts, int32 or kQuantFloats, scale of kQuantScaleTypes, y of kFloatTypesNoDouble. The difference of
// integers is exact.
Status LaunchDequantize(const QuantArgs& args, device::Stream stream);

}  // namespace cudaep::kernels
