// Division of 32-bit indices by a divisor known before the launch: one multiplication and one shift.
//
// Source: T. Granlund, P. Montgomery, "Division by Invariant Integers using Multiplication", PLDI 1994, figure 4.1,
// for dividends below 2^31 (so that the sum of dividend and high product cannot overflow).
#pragma once

#include <bit>
#include <cstdint>

#include "core/float16.h"

namespace cudaep::kernels {

struct FastDivider {
  uint32_t divisor = 1;
  uint32_t multiplier = 0;
  uint32_t shift = 0;

  FastDivider() = default;
  // `d` in [1, 2^31].
  explicit FastDivider(uint32_t d) : divisor(d) {
    shift = d <= 1 ? 0 : static_cast<uint32_t>(std::bit_width(d - 1));
    multiplier = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1);
  }

  CUDAEP_HOST_DEVICE uint32_t Divide(uint32_t n) const {
    const uint32_t high = static_cast<uint32_t>((static_cast<uint64_t>(n) * multiplier) >> 32);
    return (high + n) >> shift;
  }
  // Quotient returned, remainder through the pointer.
  CUDAEP_HOST_DEVICE uint32_t DivideWithRemainder(uint32_t n, uint32_t* remainder) const {
    const uint32_t quotient = Divide(n);
    *remainder = n - quotient * divisor;
    return quotient;
  }
};

}  // namespace cudaep::kernels
