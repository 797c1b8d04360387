// How large a block of a stream's scratch memory is taken (runtime/workspace.h), for those who plan with it too.
#pragma once

#include <algorithm>
#include <cstddef>

#include "core/checked_math.h"

namespace cudaep {

// The block for `bytes` where one of `present` bytes is too small. `exact`: under a memory limit.
constexpr size_t WorkspaceBlockBytes(size_t bytes, size_t present, bool exact) {
  constexpr size_t kFirstBlockBytes = size_t{1} << 20;
  constexpr size_t kGranularity = size_t{1} << 16;
  return AlignUp(exact ? bytes : std::max({bytes, 2 * present, kFirstBlockBytes}), kGranularity);
}

}  // namespace cudaep
