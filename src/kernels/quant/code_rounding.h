// What 8-bit codes of a tensor stand for, and how numbers become such codes. Kernels count codes from the lowest one of
// their type; code_rounding.cuh has the steps.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "kernels/quant/code_reciprocal.h"

namespace cudaep::kernels {

// Codes stand for (code - zero) * scale.
struct CodeCoding {
  float scale = 1;
  int32_t above_lowest = 0;  // the zero point
  uint32_t flip = 0;         // between a byte and how far its code lies above the lowest

  static CodeCoding Of(float scale, int32_t zero, DataType type) {
    const bool is_signed = type == DataType::kInt8;
    return {.scale = scale, .above_lowest = zero + (is_signed ? 128 : 0), .flip = is_signed ? 0x80u : 0u};
  }
};

// Numbers become saturate(round(x / scale) + zero), ties to even; the lowest of NaN.
struct CodeRounding {
  CodeCoding coding;
  CodeReciprocal reciprocal;
  bool has_reciprocal = false;  // otherwise the kernel that divides is taken
  float least = 0, most = 0;    // numbers of the lowest and the highest code

  static CodeRounding Of(const CodeCoding& coding);
};

}  // namespace cudaep::kernels
