// How the elements of a pool's window are joined. A neutral element fills what lies outside; the kernels add how a
// result is finished.
#pragma once

#include <limits>

#include "device/launch.h"

namespace cudaep::kernels {

struct JoinLarger {
  template <class C>
  static constexpr C kNeutral = std::is_floating_point_v<C> ? -std::numeric_limits<C>::infinity()
                                                            : std::numeric_limits<C>::lowest();

  // NaN is the largest.
  template <class C>
  __device__ __forceinline__ C operator()(C a, C b) const {
    if constexpr (std::is_floating_point_v<C>) return b > a || b != b ? b : a;
    return device::Max(a, b);
  }
};

struct JoinSum {
  template <class C>
  static constexpr C kNeutral = C{};

  template <class C>
  __device__ __forceinline__ C operator()(C a, C b) const {
    return a + b;
  }
};

}  // namespace cudaep::kernels
