// Codes of numbers without a division: two multiplications by a reciprocal of twice the precision.
//
// The quotient that they give is not always the rounded one, but the integer next to it has to be. A host tests this
// for a scale where the scale is known: both sides grow with the number, so it is enough to look at the numbers around
// each half between two codes.
#pragma once

#include <cmath>
#include <optional>

#include "core/float16.h"

namespace cudaep::kernels {

// Whether kernels may join a scale of codes to factors: products and quotients of two such are numbers of fp32.
constexpr bool IsModerateScale(double scale) { return scale >= 0x1p-60 && scale <= 0x1p60; }

struct CodeReciprocal {
  float high = 1, low = 0;

  // Rounded to an integer it is number / scale rounded to an integer, ties to even, where that is within +-255.
  CUDAEP_HOST_DEVICE float Quotient(float number) const { return fmaf(number, high, number * low); }
};

// Nothing for scales that are not moderate, or one whose reciprocal does not do, of which none is known.
std::optional<CodeReciprocal> CodeReciprocalOf(float scale);

}  // namespace cudaep::kernels
