// Reduces what several ranks hold, element by element, in the order of the ranks: the same bits every time.
#pragma once

#include <cstdint>
#include <span>

#include "lib/comm.h"

namespace cudaep::comm {

// 16-bit floats are reduced in fp32. `out` may be one of the parts. The type is one of kReducedTypes.
void HostReduce(std::span<const void* const> parts, void* out, int64_t elems, DataType type, Reduction reduction);

}  // namespace cudaep::comm
