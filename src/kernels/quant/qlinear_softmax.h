// Softmax of 8-bit integers that stand for reals, with or without a mask that is added before.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"
#include "kernels/fast_divide.h"
#include "kernels/quant/code_reciprocal.h"

namespace cudaep::kernels {

// What codes of a tensor stand for: (code - zero) * scale. Kernels count codes from the lowest one of their type.
struct SoftmaxCoding {
  float scale = 1;
  int32_t above_lowest = 0;  // the zero point
  uint32_t flip = 0;         // between a byte and how far its code lies above the lowest

  static SoftmaxCoding Of(float scale, int32_t zero, DataType type) {
    const bool is_signed = type == DataType::kInt8;
    return {.scale = scale, .above_lowest = zero + (is_signed ? 128 : 0), .flip = is_signed ? 0x80u : 0u};
  }
};

// How numbers become codes: saturate(round(x / scale) + zero), ties to even; the lowest of NaN.
struct SoftmaxRounding {
  SoftmaxCoding coding;
  CodeReciprocal reciprocal;
  bool has_reciprocal = false;  // otherwise the kernel that divides is taken
  float least = 0, most = 0;    // numbers of the lowest and the highest code

  static SoftmaxRounding Of(const SoftmaxCoding& coding);
};

// A tensor [of 3 sizes, axis] that is added to the scores. Sums are rounded to codes.
struct SoftmaxMask {
  DataType type = DataType::kUndefined;  // kFloat, or kInt8 or kUint8 in `coding`; none otherwise
  SoftmaxCoding coding, scores;
  SoftmaxRounding sum;
  FastDivider heads, queries;  // sizes of the rows' last two dimensions
  int64_t stride[3] = {};      // of mask elements: batch, head, query; 0: the same for all
};

// Over the middle one of [outer, axis, inner]; with a mask, inner is 1 and outer below 2^31. A code that lies d below
// its row's largest adds exp(-d * scale) to the sum; y = code of its share of that.
struct QLinearSoftmax {
  int64_t outer = 0, axis = 0, inner = 1;
  float scale = 1;      // of the codes that Softmax is of
  uint32_t x_flip = 0;  // SoftmaxCoding
  SoftmaxRounding y;
  SoftmaxMask mask;
};

// `mask` is null without one.
Status LaunchQLinearSoftmax(const QLinearSoftmax& softmax, const void* x, const void* mask, void* y,
                            device::Stream stream);

}  // namespace cudaep::kernels
