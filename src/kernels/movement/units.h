// How wide a unit data movement can use: the largest power of two up to 16 bytes that divides sizes and addresses.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/pack.h"

namespace cudaep::kernels {

// Of a byte count, offset or stride; 16 for 0, which every width divides.
inline int WidestUnit(int64_t bytes) {
  return 1 << std::min(std::countr_zero(static_cast<uint64_t>(bytes)), std::countr_zero(unsigned{kPackBytes}));
}

inline int WidestUnit(const void* pointer) {
  return WidestUnit(static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer)));
}

}  // namespace cudaep::kernels
