// How much scratch memory a library plan may be made for.
#pragma once

#include <bit>
#include <cstddef>

#include "runtime/stream_context.h"

namespace cudaep::ops {

// What the stream may still take, unless the same bits are wanted each time: the choice of an algorithm must not depend
// on the moment then.
inline size_t AvailableWorkspace(StreamContext& stream, bool deterministic) {
  return deterministic ? SIZE_MAX : stream.workspace().PlanLimit();
}

// Limits that differ little share their plans: the power of two below.
inline size_t LimitClass(size_t bytes) { return std::bit_floor(bytes); }

}  // namespace cudaep::ops
