// Numbers at equal distances.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kRangeTypes =
    kFloatTypes | DataTypeSet{DataType::kInt16, DataType::kInt32, DataType::kInt64};

// start + i * delta, rounded once for floats narrower than double; integers wrap around.
struct RangeValues {
  DataType type = DataType::kFloat;
  int64_t count = 0;
  double start = 0, delta = 0;                    // of floats
  uint64_t integer_start = 0, integer_delta = 0;  // of integers, modulo 2^64
};
Status LaunchRange(const RangeValues& range, void* out, device::Stream stream);

}  // namespace cudaep::kernels
