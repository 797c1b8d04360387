// Layer normalisation of rows of 8-bit integers that stand for reals, or of sums of two, into such integers.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"
#include "kernels/quant/code_reciprocal.h"

namespace cudaep::kernels {

// What codes of a tensor stand for: (code - zero) * scale. Kernels count codes from the lowest one of their type.
struct NormCoding {
  float scale = 1;
  int32_t above_lowest = 0;  // the zero point
  uint32_t flip = 0;         // between a byte and how far its code lies above the lowest

  static NormCoding Of(float scale, int32_t zero, DataType type) {
    const bool is_signed = type == DataType::kInt8;
    return {.scale = scale, .above_lowest = zero + (is_signed ? 128 : 0), .flip = is_signed ? 0x80u : 0u};
  }
};

// How numbers become codes: saturate(round(x / scale) + zero), ties to even; the lowest of NaN.
struct NormRounding {
  NormCoding coding;
  CodeReciprocal reciprocal;
  bool has_reciprocal = false;  // otherwise the kernel that divides is taken
  float least = 0, most = 0;    // numbers of the lowest and the highest code

  static NormRounding Of(const NormCoding& coding);
};

enum class NormSum : uint8_t { kNone, kNumbers, kCodes };

// Of x [rows, elems], or of x + residual, which becomes codes in between where `of` says so:
// y = code of ((x - mean) / sqrt(variance + epsilon) * gamma + beta), the variance being the mean squared deviation.
// Moments are fp32, of codes where there are some: the scale of those is a factor of the row.
struct QuantizedLayerNorm {
  int64_t rows = 0, elems = 0;
  NormSum of = NormSum::kNone;
  float epsilon = 0;
  NormCoding x, residual;
  NormRounding sum, y;
};

struct QuantizedLayerNormArgs {
  const void* x;
  const void* residual;  // null without one
  const float* gamma;    // [elems]
  const float* beta;     // [elems], or null
  void* y;               // may be x or residual
};

Status LaunchQuantizedLayerNorm(const QuantizedLayerNorm& norm, const QuantizedLayerNormArgs& args,
                                device::Stream stream);

}  // namespace cudaep::kernels
