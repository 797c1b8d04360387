// The generator behind every seeded decision of the simulated device (SplitMix64): any seed will do, zero too.
#pragma once

#include <cstdint>

namespace cudaep::device::sim {

inline uint64_t NextRandom(uint64_t* state) {
  uint64_t value = (*state += 0x9e3779b97f4a7c15u);
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// In [0, 1).
inline double RandomFraction(uint64_t* state) { return static_cast<double>(NextRandom(state) >> 11) * 0x1.0p-53; }

}  // namespace cudaep::device::sim
