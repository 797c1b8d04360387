// Conversion of a tensor's elements to another type; what it means is in conversion.cuh.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "device/device.h"

namespace cudaep::kernels {

// The types that can be converted, each to each.
inline constexpr DataTypeSet kCastTypes = kNumericTypes | DataTypeSet(DataType::kBool);

struct CastArgs {
  const void* x = nullptr;
  void* y = nullptr;                   // may be x when elements have the same size
  DataType to = DataType::kUndefined;  // one of kCastTypes
  int64_t elems = 0;
};

using CastKernel = Status (*)(const CastArgs& args, device::Stream stream);

// Null for types outside kCastTypes.
CastKernel FindCastKernel(DataType from);

}  // namespace cudaep::kernels
