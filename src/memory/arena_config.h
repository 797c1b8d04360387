// How an allocator of device memory behaves; part of what sessions must agree on to share one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cudaep::memory {

enum class ArenaMode : uint8_t {
  kArena,  // best fit with coalescing, over regions taken from the driver
  kPool,   // the driver's own stream-ordered pool
  kNone,   // every allocation is the driver's
};

enum class ExtendStrategy : uint8_t {
  kNextPowerOfTwo,   // regions double
  kSameAsRequested,  // regions as large as the request that needs one
};

struct ArenaConfig {
  ArenaMode mode = ArenaMode::kArena;
  size_t max_bytes = 0;  // of this allocator, from the driver; 0: none
  ExtendStrategy extend_strategy = ExtendStrategy::kNextPowerOfTwo;
  size_t initial_chunk_bytes = size_t{1} << 20;               // the first region
  size_t initial_growth_chunk_bytes = size_t{2} << 20;        // the first region after a shrink
  size_t max_dead_bytes_per_chunk = size_t{128} << 20;        // most a chunk may exceed its request by
  size_t max_power_of_two_extend_bytes = size_t{1024} << 20;  // regions stop doubling here
  size_t slack_bytes = size_t{64} << 20;    // reserved beyond the bound, for streams that need not wait; no option
  size_t pool_release_threshold_bytes = 0;  // what a pool keeps at a synchronisation
  size_t pool_bytes_to_keep_on_shrink = 0;

  bool operator==(const ArenaConfig&) const = default;
};

}  // namespace cudaep::memory
