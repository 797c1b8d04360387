// Layer normalisation of rows of 8-bit integers that stand for reals, or of sums of two, into such integers.
#pragma once

#include <cstdint>

#include "core/status.h"
#include "device/device.h"
#include "kernels/quant/code_rounding.h"

namespace cudaep::kernels {

enum class NormSum : uint8_t { kNone, kNumbers, kCodes };

// Of x [rows, elems], or of x + residual, which becomes codes in between where `of` says so:
// y = code of ((x - mean) / sqrt(variance + epsilon) * gamma + beta), the variance being the mean squared deviation.
// Moments are fp32, of codes where there are some: the scale of those is a factor of the row.
struct QuantizedLayerNorm {
  int64_t rows = 0, elems = 0;
  NormSum of = NormSum::kNone;
  float epsilon = 0;
  CodeCoding x, residual;
  CodeRounding sum, y;
};

struct QuantizedLayerNormArgs {
  const void* x;
  const void* residual;          // null without one
  const float* gamma;            // [elems]
  const float* beta;             // [elems], or null
  void* y;                       // may be x or residual
  bool constant_affine = false;  // gamma and beta may be read before earlier work of the stream is done
};

Status LaunchQuantizedLayerNorm(const QuantizedLayerNorm& norm, const QuantizedLayerNormArgs& args,
                                device::Stream stream);

}  // namespace cudaep::kernels
