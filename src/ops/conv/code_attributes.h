// What nodes of convolutions say of codes and bounds (kernels/conv/quantized_conv.h).
#pragma once

#include "kernels/conv/coding.h"
#include "ops/op_info.h"

namespace cudaep::ops {

// Two floats, or none.
Result<kernels::Bounds> ParseBounds(const OpInfo& info, const char* name);
// Scale and zero point of codes of `type`.
Result<kernels::Coding> ParseCoding(const OpInfo& info, const char* scale, const char* zero, DataType type);

}  // namespace cudaep::ops
