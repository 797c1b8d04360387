// Units of data movement: an element, or a run of elements, as an integer of 1 to 16 bytes whatever its type is.
//
// A run is moved in the widest unit that sizes and addresses allow. Memory that a caller hands over is aligned to the
// components of its elements, which for complex numbers is half of one: a kernel that moves elements one by one takes
// such a one as two halves.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/status.h"
#include "kernels/pack.h"

namespace cudaep::kernels {

using Unit16 = Pack<uint64_t, 2>;

// At addresses that are multiples of half its size.
template <class Half>
struct SplitUnit {
  Half value[2];
};
template <class Half>
struct Pack<SplitUnit<Half>, 1> {
  SplitUnit<Half> value[1];
};

template <class Unit>
inline constexpr bool kIsSplit = false;
template <class Half>
inline constexpr bool kIsSplit<SplitUnit<Half>> = true;

// The largest power of two up to 16 that divides a byte count, offset or stride; 16 for 0, which every width divides.
inline int WidestUnit(int64_t bytes) {
  return 1 << std::min(std::countr_zero(static_cast<uint64_t>(bytes)), std::countr_zero(unsigned{kPackBytes}));
}
inline int WidestUnit(const void* pointer) {
  return WidestUnit(static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer)));
}

// Calls `visit.template operator()<Unit>()` with the unit of `bytes` (1, 2, 4, 8 or 16).
template <class F>
Status VisitUnit(int bytes, F&& visit) {
  switch (bytes) {
    case 1:
      return visit.template operator()<uint8_t>();
    case 2:
      return visit.template operator()<uint16_t>();
    case 4:
      return visit.template operator()<uint32_t>();
    case 8:
      return visit.template operator()<uint64_t>();
    case 16:
      return visit.template operator()<Unit16>();
    default:
      return Internal("data movement in units of ", bytes, " bytes");
  }
}

// The same for elements whose addresses are multiples of `alignment`, which may be half of `bytes`.
template <class F>
Status VisitUnit(int bytes, int alignment, F&& visit) {
  if (bytes == 16 && alignment < 16) return visit.template operator()<SplitUnit<uint64_t>>();
  if (bytes == 8 && alignment < 8) return visit.template operator()<SplitUnit<uint32_t>>();
  return VisitUnit(bytes, visit);
}

}  // namespace cudaep::kernels
