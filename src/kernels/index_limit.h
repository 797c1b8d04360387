// Up to how many elements kernels count with 32 bits; beyond, launchers take 64-bit indices or several launches.
//
// A variable so that tests reach those paths with small tensors: the operator test driver lowers it before it plans and
// launches, on one thread. Nothing else writes it, and only host code reads it.
#pragma once

#include <cstdint>
#include <limits>

namespace cudaep::kernels {

inline int64_t index_limit = std::numeric_limits<int32_t>::max();

inline bool FitsIndex(int64_t value) { return value <= index_limit; }

}  // namespace cudaep::kernels
