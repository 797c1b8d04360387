// Conversion of elements where at least one side has 8 bits or fewer and is no plain integer: 8-bit floats, and 2 and 4
// bits packed into bytes.
#pragma once

#include "kernels/common/narrow_types.h"
#include "kernels/elementwise/cast.h"

namespace cudaep::kernels {

// Floats round to nearest, ties to even, and towards zero for integers. Integers keep the lowest bits of what does not
// fit. One of `from` and args.to is in kNarrowTypes, the other there or in kCastTypes.
Status LaunchNarrowCast(DataType from, const CastArgs& args, NarrowRounding rounding, device::Stream stream);

}  // namespace cudaep::kernels
