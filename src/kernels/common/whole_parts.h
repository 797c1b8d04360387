// One thread a place, over images or planes that may hold more places than thread numbers of 32 bits.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/checked_math.h"
#include "core/status.h"
#include "device/launch.h"
#include "kernels/index_limit.h"

namespace cudaep::kernels {

// Calls launch(config, first part, threads) for as many whole parts, of `part_threads` >= 1 each, as thread numbers
// reach: once, but for huge tensors.
template <class LaunchParts>
Status LaunchWholeParts(int64_t parts, int64_t part_threads, int block_threads, LaunchParts&& launch) {
  const int64_t most = std::max<int64_t>(1, (index_limit + 1 - block_threads) / part_threads);
  for (int64_t first = 0; first < parts; first += most) {
    const auto threads = static_cast<uint32_t>(std::min(parts - first, most) * part_threads);
    device::LaunchConfig config;
    config.grid.x = CeilDiv(threads, static_cast<unsigned>(block_threads));
    config.block.x = static_cast<unsigned>(block_threads);
    config.programmatic = true;
    CUDAEP_RETURN_IF_ERROR(launch(config, first, threads));
  }
  return Status::Ok();
}

}  // namespace cudaep::kernels
