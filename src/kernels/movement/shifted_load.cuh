// Sixteen bytes from an address that is aligned to their elements alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/launch.h"
#include "kernels/pack.h"

namespace cudaep::kernels {

// Memory that may be read in whole, aligned groups of kPackBytes. An address of its end would be that of what lies
// behind it, which the simulated device would take for read.
struct Readable {
  const std::byte* begin = nullptr;
  size_t bytes = 0;
};

// The bytes from an address on: both aligned groups that they lie in, to be shifted together when they are needed.
struct ShiftedGroups {
  using Group = Pack<uint32_t, 4>;
  Group low, high;
  unsigned shift;

  // False, and nothing read, where one of those groups is not inside the readable memory.
  __device__ __forceinline__ bool Load(const void* from, const Readable& readable) {
    shift = static_cast<unsigned>(reinterpret_cast<uintptr_t>(from) % kPackBytes);
    const std::byte* const first = static_cast<const std::byte*>(from) - shift;
    const auto before = static_cast<size_t>(first - readable.begin);  // huge where it lies in front
    if (before > readable.bytes || readable.bytes - before < (shift != 0 ? 2 : 1) * kPackBytes) return false;
    low = *reinterpret_cast<const Group*>(first);
    high = *reinterpret_cast<const Group*>(first + (shift != 0 ? kPackBytes : 0));
    return true;
  }

  // The address was aligned to a Unit.
  template <class Unit>
  __device__ __forceinline__ Group Shifted() const {
    uint32_t word[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      word[i] = low.value[i];
      word[i + 4] = high.value[i];
    }
#pragma unroll
    for (int i = 0; i < 6; ++i) word[i] = (shift & 8) != 0 ? word[i + 2] : word[i];
    if constexpr (sizeof(Unit) <= 4) {
#pragma unroll
      for (int i = 0; i < 5; ++i) word[i] = (shift & 4) != 0 ? word[i + 1] : word[i];
    }
    Group result;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      result.value[i] = word[i];
      if constexpr (sizeof(Unit) < 4) {
        const uint64_t both = word[i] | uint64_t{word[i + 1]} << 32;
        result.value[i] = static_cast<uint32_t>(both >> (shift % 4 * 8));
      }
    }
    return result;
  }
};

// Both at once.
template <class Unit>
__device__ __forceinline__ bool LoadShifted(const Unit* from, const Readable& readable, Pack<uint32_t, 4>& result) {
  ShiftedGroups groups;
  if (!groups.Load(from, readable)) return false;
  result = groups.Shifted<Unit>();
  return true;
}

}  // namespace cudaep::kernels
