// Element types of 8 bits and fewer that are no plain integers, and what a rounding to them leaves to choose.
#pragma once

#include <cstdint>

#include "core/data_type.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kNarrowInts{DataType::kUint4, DataType::kInt4, DataType::kUint2, DataType::kInt2};
inline constexpr DataTypeSet kNarrowFloats = kFloat8Types | DataTypeSet{DataType::kFloat8E8M0, DataType::kFloat4E2M1};
inline constexpr DataTypeSet kNarrowTypes = kNarrowInts | kNarrowFloats;

// Everything that a tensor in memory can hold.
inline constexpr DataTypeSet kStoredTypes = kAnySizedTypes | kNarrowTypes;

enum class PowerRounding : uint8_t { kUp, kDown, kNearest };  // to float8e8m0, which has powers of two alone

struct NarrowRounding {
  bool saturate = true;  // to 8-bit floats: what is beyond the largest number becomes that number, else infinity or NaN
  PowerRounding power = PowerRounding::kUp;
};

}  // namespace cudaep::kernels
